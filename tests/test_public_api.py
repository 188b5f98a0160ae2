"""The public functions: few positional parameters, and every name of patchprint in a signature can be had from the top."""

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import patchprint
from support.checkout import ROOT

FUNCTIONS = [name for name in patchprint._HOMES if inspect.isroutine(getattr(patchprint, name))]
CLASSES = ["Feature2D", "LAFDescriptor", "LAFDetector"]
# To match two images is to use a model; none of this is needed for it.
NOT_TO_USE = (
    "training", "losses", "metrics", "report", "benchmarks", "pipelines", "studies", "web", "data", "storage.describe_jobs",
    "interop.colmap_models", "interop.colmap_database", "interop.ray_cluster",
)  # fmt: skip


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_what_may_be_left_out_is_given_by_name(name: str) -> None:
    parameters = inspect.signature(getattr(patchprint, name)).parameters.values()
    positional = [each for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    optional = [each.name for each in positional if each.default is not inspect.Parameter.empty]
    assert len(positional) <= 2 or len(optional) <= 1, optional


@pytest.mark.parametrize("name", FUNCTIONS)
def test_names_in_signatures_are_public(name: str) -> None:
    function = getattr(patchprint, name)
    hints = typing.get_type_hints(inspect.unwrap(function))
    for hint in hints.values():
        for kind in _classes(hint):
            if kind.__module__.startswith("patchprint"):
                assert getattr(patchprint, kind.__name__, None) is kind, f"{kind.__module__}.{kind.__name__}"


def _classes(hint: Any) -> list[type]:
    parts = typing.get_args(hint)
    return [kind for part in parts for kind in _classes(part)] if parts else [hint] if isinstance(hint, type) else []


def test_matching_two_images_imports_only_what_it_uses(tmp_path: Any) -> None:
    code = (
        "import sys, numpy as np, patchprint\n"
        "image = np.random.default_rng(0).integers(0, 255, (90, 120), dtype=np.uint8)\n"
        "a, b = (patchprint.extract(image, 'patchprint.tiny', max_keypoints=20) for _ in range(2))\n"
        "patchprint.verify(a, b, patchprint.match(a, b))\n"
        f"patchprint.draw(a, b, patchprint.match(a, b), {str(tmp_path / 'm.png')!r}, images=(image, image))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('patchprint.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    found = done.stdout.split()
    unwanted = re.compile(rf"patchprint\.({'|'.join(map(re.escape, NOT_TO_USE))})(\.|$)")
    assert [name for name in found if unwanted.match(name)] == []
    assert "patchprint.features.extract" in found


def test_the_citation_has_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (\S+)$", citation, re.M) == [patchprint.__version__]


WRONG: dict[str, Callable[[], object]] = {
    "did you mean max_keypoints": lambda: patchprint.extract("a.jpg", "pixels", max_keypoint=5),
    "max_keypoints must be at least 1": lambda: patchprint.DetectSettings(max_keypoints=0),
    "max_size must be at least 32": lambda: patchprint.DescribeSettings(max_size=8),
    "did you mean dog": lambda: patchprint.DetectSettings(detector="dgo"),
    "there is no matcher": lambda: patchprint.MatchSettings(matcher="best"),
    "ratio must lie in": lambda: patchprint.MatchSettings(ratio=2.0),
    "unknown geometry": lambda: patchprint.MatchSettings(geometry="plane"),  # type: ignore[arg-type]
    "there is no benchmark 'oxfrod'": lambda: patchprint.evaluate("oxfrod", "sift"),
    "has no option 'keypoint'; did you mean keypoints": lambda: patchprint.evaluate("bundled", "sift", keypoint=3),
}


@pytest.mark.parametrize("message", WRONG)
def test_settings_are_valid_once_constructed(message: str) -> None:
    with pytest.raises(patchprint.UserError, match=message):
        WRONG[message]()

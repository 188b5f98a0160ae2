"""``patchprint train matcher`` and ``train detector``: what is trained beside descriptors."""

from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from patchprint.cli.train import Switch, finish
from patchprint.common.errors import UserError
from patchprint.matching.matcher_training import RECIPE as MATCHER, MatcherSettings
from patchprint.pipelines.detector_training import RECIPE as DETECTOR, DetectorSettings, train_detector
from patchprint.pipelines.matcher_training import train_matcher
from patchprint.training import Outcome


def matcher(
    settings: MatcherSettings,
    data: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    out: Path = Path("runs/matcher"),
    force: Switch = False,
) -> int:
    """Train the matcher graph for the descriptors of a model; --matcher RUN/best.safetensors then uses it.

    Args:
        data: store with images (patchprint data build); --resume --out RUN goes on with a run.
        out: folder of the run.
        force: replace a run that is in --out already.
    """
    return finish(train_matcher(data, out=out, settings=settings, force=force), out)


def detector(
    settings: DetectorSettings,
    data: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    out: Path = Path("runs/detector"),
    force: Switch = False,
) -> int:
    """Train the detector learned on images alone; RUN/best.safetensors is then the name of a detector.

    Args:
        data: folder with images; --resume --out RUN goes on with a run.
        out: folder of the run.
        force: replace a run that is in --out already.
    """
    return finish(train_detector(data, out=out, settings=settings, force=force), out)


def resume(recipe: str, out: Path, steps: int | None, data: Sequence[str], device: str) -> Outcome:
    """Go on with the run of a matcher or detector; raises UserError for changes that it cannot take."""
    if steps or device:
        raise UserError(f"the run of a {recipe} is resumed as it was started; leave --steps and --device out")
    if recipe == MATCHER:
        return train_matcher(data, out=out, resume=True)
    return train_detector(data, out=out, resume=True)


COMMANDS: dict[str, Callable[..., int]] = {MATCHER: matcher, DETECTOR: detector}

"""Work of several steps that is killed anywhere and called again: it must end as if it had not been."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.injection import Injected
from patchprint.features.settings import DescribeSettings
from patchprint.networks import weights
from patchprint.pipelines.sfm_folder import SfmFolder
from patchprint.pipelines.structure_from_motion import SfmSettings, sfm
from patchprint.storage.feature_folder import describe_folder
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train
from support import children, training_data
from support.scenes import THREE_VIEWS

Run = Callable[[Path], object]


@dataclass(frozen=True)
class LongWork:
    """``run`` begins the work in a folder or goes on with it; ``read`` gives what must not depend on kills."""

    name: str
    run: Run
    read: Callable[[Path], Any]
    longest: float
    """Seconds within which it is killed."""


def all_works(place: Path) -> list[LongWork]:
    """``place`` is a folder for what they work on."""
    photos, source = place / "photos", training_data.images()
    THREE_VIEWS.write(photos)
    settings = DescribeSettings(model="rootsift", max_keypoints=600)
    steps = {"steps": 12, "checkpoint_every": 2, "validate_every": 3, "average": 0.9}
    config = resolve("hardnet", **{**training_data.SHORT, **steps, "network_options": training_data.narrow("hardnet")})

    def learn(out: Path) -> None:
        resume = checkpoint.any_in(out / "checkpoints")
        train(config, source, out=out, resume=resume, force=not resume)

    return [
        LongWork("describe", lambda out: describe_folder(photos, out, settings), _all_bytes, 0.6),
        LongWork("train", learn, _weights, 1.5),
        LongWork("sfm", lambda out: sfm(photos, out, SfmSettings(describe=settings)), _registered, 6.0),
    ]


def kills(work: LongWork, folder: Path, count: int, generator: random.Random) -> Iterator[Injected]:
    """Up to three kills in a row, then to the end; ``count`` times."""
    out = folder / "out"
    ended = children.run(lambda: work.run(out))
    assert ended.how == "done", ended
    truth = work.read(out)
    for _ in range(count):
        shutil.rmtree(folder)
        folder.mkdir()
        moments = []
        for _ in range(generator.randint(1, 3)):
            seconds = generator.uniform(0, work.longest)
            if children.kill_after(seconds, lambda: work.run(out)).how == "killed":
                moments.append(f"{seconds:.2f} s")
        ended = children.run(lambda: work.run(out))
        if moments:
            problem = f"it cannot go on: {ended}" if ended.how != "done" else ""
            problem = problem or ("" if work.read(out) == truth else "it ended otherwise")
            rubbish = sorted(path.name for path in folder.iterdir() if path != out)
            problem = problem or (f"left behind: {', '.join(rubbish)}" if rubbish else "")
            yield Injected(work.name, "kill of a long work", f"after {', '.join(moments)}", problem)


def _all_bytes(out: Path) -> Any:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def _weights(out: Path) -> Any:
    return [weights.read_info(out / f"{name}.safetensors").sha256 for name in ("last", "best")]


def _registered(out: Path) -> Any:
    return SfmFolder.open(out).model.num_reg_images(), sorted(path.name for path in out.iterdir())

"""How many keypoints of an image have a descriptor that no other has."""

from __future__ import annotations

from dataclasses import dataclass

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import KeypointSettings, features_of
from patchprint.common.errors import UserError
from patchprint.interop.images import read_gray
from patchprint.ops.distances import nearest


@dataclass(frozen=True)
class Settings:
    # Keypoints to describe.
    keypoints: int = 50
    # Smallest distance of descriptors that count as different.
    apart: float = 0.1


class Yours(Benchmark):
    """Part of the keypoints that stand alone."""

    settings = Settings
    scoring = frozenset({"apart"})
    lower_is_better = frozenset({"crowded"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        if not run.folder.is_file():
            raise UserError(f"{run.folder} is not an image")
        found = features_of(run, read_gray(run.folder), "image", KeypointSettings("dog", settings.keypoints))
        distance, _ = nearest(found.descriptors, found.descriptors, 2, exact=True)
        return {"alone": float((distance[:, 1] > settings.apart).double().mean())}

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"alone": scores["alone"], "crowded": 1 - scores["alone"]}

"""A matcher trained on 50 images of a user's own on a CPU: minutes, and right matches on other images of the same place.

    python -m perf.experiments.own_images --store data/notredame --images 50 --model patchprint.fast --steps 400 \
        --work runs/own-images --out results/experiments/own-images.json

It starts from nothing (`patchprint train matcher`), and from the shipped weights (``--init``). The images of the store that it
did not learn from measure right matches of a pair where nine of ten matches are right, beside the ratio test at the threshold
that has this precision, and the shipped weights. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from patchprint.common import files, provenance
from patchprint.data import track_files
from patchprint.features import load
from patchprint.matching.calibration import spread_over
from patchprint.matching.feature_bank import BankSettings, open_bank
from patchprint.matching.matcher_training import HeldOutImagePairs, MatcherSettings
from patchprint.matching.matchers.graph import SHIPPED, read_weights
from patchprint.pipelines.matcher_training import train_matcher

PAIRS = 60  # of each kind
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--unseen", type=int, default=30, help="images that measure")
    parser.add_argument("--model", default="patchprint.fast")
    parser.add_argument("--steps", type=int, default=MatcherSettings.steps)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    started = time.monotonic()
    torch.set_num_threads(1)
    model = load(given.model)
    clock = time.process_time()
    learned = MatcherSettings(model=given.model, images=given.images, steps=given.steps, device="cpu")
    bank = dict(learned.config([given.store]).batcher_options)
    bank.pop("model")
    (scene,) = open_bank([given.store], model, BankSettings(**bank))
    scores: dict[str, Any] = {"seconds to describe": round(time.process_time() - clock, 1), "images": len(scene.images)}
    networks = {"shipped": read_weights(SHIPPED, CPU).network}
    for name, init in (("trained", None), ("tuned", SHIPPED)):
        settings = {**vars(learned), "init": init, "lr": learned.lr if init is None else learned.lr / 4}
        clock = time.process_time()
        outcome = train_matcher([given.store], out=given.work / name, settings=MatcherSettings(**settings), force=True)
        scores[f"seconds, {name}"] = round(time.process_time() - clock, 1)
        scores[f"lost on held-out images, {name}"] = outcome.measured
        networks[name] = read_weights(Path(outcome.best), CPU).network
    every = range(len(track_files.read(given.store).sizes))
    seen = spread_over(len(every), given.images)
    unseen = [each for each in every if each not in seen]
    judging = [unseen[place] for place in spread_over(len(unseen), given.unseen)]
    bank |= {"images": len(every), "leave_out": tuple(each for each in every if each not in judging)}
    (scene,) = open_bank([given.store], model, BankSettings(**bank))
    everyone = [list(range(len(scene.images)))]
    pairs = HeldOutImagePairs([scene], everyone, everyone, CPU, PAIRS)
    scores["unseen images"] = len(scene.images)
    scores["pairs"] = {kind: len(each) for kind, each in pairs.kinds.items()}
    scores["right"] = {"mutual+ratio": pairs.right_by_ratio()}
    with torch.no_grad():
        scores["right"] |= {name: pairs.right_matches(network) for name, network in networks.items()}
    print(scores)
    result = provenance.record(
        "own-images",
        settings={"images": given.images, "steps": given.steps, "pairs": PAIRS},
        model={"name": model.info.name, "sha256": model.info.sha256},
        data={"path": str(given.store)},
        seed=0,
        scores=scores,
        started=started,
    )
    files.write_json(given.out, result.to_json())


if __name__ == "__main__":
    main()

"""All stages, one after the other, as one result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from patchprint.common import provenance
from patchprint.common.devices import choose_device
from patchprint.common.errors import MissingPackageError
from patchprint.common.provenance import Result
from patchprint.networks.weights import weight_names
from patchprint.speed._describers import engine_names
from patchprint.speed._photos import Photos
from patchprint.speed._stages import STAGES, Setup, Work
from patchprint.speed._turns import Times, busy_cores, check_turns, in_turns

ROUNDS = 5


def bench(
    photos: Photos,
    stages: Sequence[str] = (),
    models: Sequence[str] = (),
    engines: Sequence[str] = (),
    rounds: int = ROUNDS,
    busy: int = 0,
    device: str = "auto",
) -> Result:
    """Times of every contender in every stage.

    Args:
        photos: from `read_photos`.
        stages: names in STAGES; () takes all.
        models: shipped weights or weight files; () takes all that are shipped.
        engines: of our models; () takes all that the machine has where patches are described, and elsewhere those that
            are chosen by themselves, for a few photos and for many.
        rounds: how often each contender has its turn.
        busy: cores that are kept busy by other processes meanwhile.
    """
    check_turns(rounds, busy)
    started, place = time.monotonic(), choose_device(device)
    chosen = {name: STAGES[name] for name in stages or STAGES}
    setup = Setup(photos, place, tuple(models) or tuple(weight_names()), tuple(engines) or engine_names(place))
    setup.describers(setup.engines)  # what is not there is found out now, not after minutes
    scores: dict[str, Any] = {}
    for name, prepare in chosen.items():
        try:
            work = prepare(setup)
        except MissingPackageError as error:  # a stage that nobody here can do
            setup.left_out[name] = str(error)
            continue
        with busy_cores(busy):
            scores[name] = _scores(work, in_turns(name, work.tasks, rounds, place))
    settings = {
        "device": place.type,
        "threads": torch.get_num_threads(),
        "busy_cores": busy,
        "keypoints": photos.count,
        "rounds": rounds,
        "rule": "in turns; patches_per_second by the best round, times_faster the median over rounds",
    }
    result = {**scores, "left_out": setup.left_out}
    return provenance.record("speed", settings=settings, scores=result, data=photos.facts(), started=started)


def _scores(work: Work, times: dict[str, Times]) -> dict[str, Any]:
    """``contenders`` by name: milliseconds of one photo, pair or step, and how many times faster than its peers each is."""
    contenders: dict[str, Any] = {}
    for name, taken in times.items():
        score: dict[str, Any] = {
            "best_ms": _rounded(1e3 * taken.best / work.photos),
            "median_ms": _rounded(1e3 * taken.median / work.photos),
        }
        if work.patches is not None:
            score["patches_per_second"] = round(work.patches / taken.best)
        peers = [peer for peer in work.peers.get(name, ()) if peer in times]
        score["times_faster"] = {peer: _rounded(taken.times_faster_than(times[peer])) for peer in peers}
        contenders[name] = score | work.facts.get(name, {})
    return {"title": work.title, "contenders": contenders}


def _rounded(value: float) -> float:
    """Four digits."""
    return float(f"{value:.4g}")

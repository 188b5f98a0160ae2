"""Features of the images of a sequence, as benchmarks get them."""

from __future__ import annotations

from pathlib import Path

from patchprint.benchmarks._features import sequence_features
from patchprint.interop.sequences import find_sequences
from support.benchmark_data import run_of
from support.fake_models import CountingPixels
from support.scenes import write_sequence

CHOICE = {"detector": "dog-published", "keypoints": 20, "spread": False, "upright": False}


def test_the_limit_may_hold_for_the_first_image_alone(tmp_path: Path) -> None:
    write_sequence(tmp_path / "s")
    (sequence,) = find_sequences(tmp_path)
    run = run_of("pairs", CountingPixels(), tmp_path)
    limited = sequence_features(run, sequence, **CHOICE)
    open_end = sequence_features(run, sequence, **CHOICE, all_but_first=True)
    assert limited and open_end
    assert {number: len(found) for number, found in limited.items()} == {1: 20, 2: 20, 3: 20}
    assert len(open_end[1]) == 20
    assert min(len(open_end[2]), len(open_end[3])) > 20


def test_without_the_first_image_there_is_no_pair(tmp_path: Path) -> None:
    write_sequence(tmp_path / "s")
    (sequence,) = find_sequences(tmp_path)
    sequence.paths[1].write_bytes(b"no image")
    run = run_of("pairs", CountingPixels(), tmp_path, strict=False)
    assert sequence_features(run, sequence, **CHOICE) is None
    assert run.skipped == ["s/img1.png"]

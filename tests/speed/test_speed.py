"""The contenders do the same work, have their turns, and are named where they are not installed. No test asks for seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from patchprint import UserError, speed
from patchprint.ops.sampling import ImagePyramids, cut_patches
from patchprint.speed import STAGES, Photos, __main__, _growth, _stages, _training, _turns, bench, draw, read_photos
from patchprint.speed._describers import Ours
from patchprint.speed._stages import Setup
from patchprint.speed._tables import growth_table, stage_table
from patchprint.speed._turns import Times, busy_cores, check_turns, in_turns

CPU = torch.device("cpu")
MODEL = "hardnet.small"


@pytest.fixture(scope="module")
def photos() -> Photos:
    return read_photos(None, photos=2, megapixels=0.05, keypoints=40)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call in a measurement, and small batches."""
    monkeypatch.setattr(_turns, "SHORTEST", 0.0)
    monkeypatch.setattr(_turns, "PAUSE", 0.0)
    monkeypatch.setattr(_training, "pairs_on", lambda device: 4)


def test_contenders_have_their_turns() -> None:
    calls: list[str] = []
    times = in_turns("letters", {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, CPU)
    assert "".join(calls)[-6:] == "ababab"
    assert {name: len(taken.rounds) for name, taken in times.items()} == {"a": 3, "b": 3}


def test_a_fast_call_is_repeated_within_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_turns, "SHORTEST", 0.01)
    calls = []
    (taken,) = in_turns("one", {"a": lambda: calls.append(time.sleep(0.001))}, 1, CPU).values()
    assert len(calls) > 3 and taken.best < 0.01, "a measurement counts as one call of it"


def test_ratios_are_taken_within_rounds() -> None:
    own, other = Times((1.0, 2.0, 10.0)), Times((2.0, 8.0, 10.0))
    assert own.times_faster_than(other) == 2.0  # of 2, 4 and 1
    assert (own.best, own.median) == (1.0, 2.0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
def test_busy_cores_are_busy_and_then_free(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args: started.append(_popen(*args)) or started[-1])
    first = min(os.sched_getaffinity(0))
    with busy_cores(1):
        (other,) = started
        for _ in range(200):
            if os.sched_getaffinity(other.pid) == {first}:
                break
            time.sleep(0.05)
        assert other.poll() is None and os.sched_getaffinity(other.pid) == {first}
    assert other.poll() is not None


_popen = subprocess.Popen


def test_numbers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for rounds, busy in ((0, 0), (1, -1), (1, 10_000)):
        with pytest.raises(UserError, match=r"--rounds is 0|--busy is"):
            check_turns(rounds, busy)
    for bad in ({"photos": 1}, {"megapixels": 0.0}, {"keypoints": 0}):
        with pytest.raises(UserError, match=f"--{next(iter(bad))} is"):
            read_photos(None, **{"photos": 2, "megapixels": 0.1, "keypoints": 9, **bad})
    cv2.imwrite(str(tmp_path / "one.png"), np.zeros((40, 40), np.uint8))
    with pytest.raises(UserError, match="two are needed"):
        read_photos(tmp_path, 2, 0.1, 9)
    cv2.imwrite(str(tmp_path / "two.png"), np.zeros((40, 40), np.uint8))
    with pytest.raises(UserError, match="no keypoints"):
        read_photos(tmp_path, 2, 0.1, 9)


def test_photos_have_the_size_that_is_asked_for_and_can_be_kept(photos: Photos, tmp_path: Path) -> None:
    assert [image.size / 1e6 for image in photos.images] == pytest.approx([0.05, 0.05], rel=0.02)
    photos.save(tmp_path / "photos.npz")
    again = Photos.open(tmp_path / "photos.npz")
    assert again.facts() == photos.facts() and again.count == photos.count
    for found, kept in zip(photos.keypoints, again.keypoints, strict=True):
        assert torch.equal(found.frames(), kept.frames()) and torch.equal(found.xy, kept.xy)


def test_limits_are_those_of_the_machine(photos: Photos) -> None:
    contenders = bench(photos, ["limits"], [MODEL], rounds=1, device="cpu").scores["limits"]["contenders"]
    assert list(contenders) == ["matrix product, float32", "matrix product, bfloat16", "copy of memory"]
    assert contenders["matrix product, float32"]["multiply_adds"] == 2048**3


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "limits"])
def test_a_stage_is_timed(stage: str, photos: Photos) -> None:
    result = bench(photos, [stage], [MODEL], rounds=1, device="cpu")
    contenders = result.scores[stage]["contenders"]
    assert any(name.startswith("patchprint") for name in contenders) and len(contenders) > 3
    assert not set(contenders) & set(result.scores["left_out"])
    for name, score in contenders.items():
        assert 0 < score["best_ms"] == score["median_ms"]
        for peer, times in score["times_faster"].items():
            assert times == pytest.approx(contenders[peer]["best_ms"] / score["best_ms"], rel=0.01), (name, peer)
    compared = [score["times_faster"] for name, score in contenders.items() if name.startswith("patchprint")]
    assert any(compared), "nobody is compared with anybody"


def test_our_models_are_compared_with_the_same_trunk(photos: Photos) -> None:
    peers = {model: Ours(model, "auto", CPU).peers[0] for model in (MODEL, "hardnet", "hynet", "sdgmnet")}
    assert peers == {
        MODEL: "kornia HardNet",
        "hardnet": "kornia HardNet",
        "hynet": "kornia HyNet",
        "sdgmnet": "kornia HyNet",
    }


def test_whoever_is_not_installed_is_named(photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in ("kornia", "kornia.feature", "pycolmap"):
        monkeypatch.setitem(sys.modules, missing, None)
    scores = bench(photos, ["describe", "photo"], [MODEL], ["auto"], rounds=1, device="cpu").scores
    assert list(scores["describe"]["contenders"]) == [f"patchprint {MODEL}"]
    assert {"OpenCV SIFT", "OpenCV ORB"} < set(scores["photo"]["contenders"])
    assert {"kornia HardNet", "kornia HyNet", "kornia SOSNet", "COLMAP SIFT"} <= set(scores["left_out"])
    assert "patchprint[eval]" in scores["left_out"]["kornia HardNet"]


def test_a_stage_that_nobody_can_do_is_named(photos: Photos, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    scores = bench(photos, ["sample", "photo"], [MODEL], rounds=1, device="cpu").scores
    assert "photo" not in scores and "cv2" in scores["left_out"]["photo"]
    assert "patchprint" in scores["sample"]["contenders"]


def test_all_who_cut_patches_cut_the_same(photos: Photos) -> None:
    """At keypoints whose patches are not smaller than they are in the photo: OpenCV has no pyramid."""
    image, found = photos.images[0], photos.keypoints[0]
    small = found[found.scale * _stages.PATCH_SCALE < _stages.SIDE]
    assert len(small) > 5
    one = Photos("", [image], [small], 0)
    tasks = _stages.sampling(Setup(one, CPU, (), ())).tasks
    ours = cut_patches(ImagePyramids.build([image]), 0, small, _stages.PATCH_SCALE, _stages.SIDE)[:, 0]
    cut: dict[str, Any] = {name: task() for name, task in tasks.items()}
    assert float((cut["kornia"][0, :, 0] - ours).abs().mean()) < 0.01
    assert float((torch.from_numpy(cut["OpenCV warpAffine"]) / 255 - ours).abs().mean()) < 0.01


def test_all_who_match_find_the_same_pairs(photos: Photos) -> None:
    tasks = _stages.matching(Setup(photos, CPU, (), ())).tasks
    found: dict[str, Any] = {name: task() for name, task in tasks.items()}
    ours = found["patchprint, floats"].indices.tolist()
    assert ours and found["FAISS, floats"].indices.tolist() == ours
    assert found["kornia, floats"][1].tolist() == ours
    assert sorted([m.queryIdx, m.trainIdx] for m in found["OpenCV BFMatcher, floats"]) == ours


def test_a_plain_step_learns(photos: Photos) -> None:
    source = _training.as_source(photos, CPU)
    config = _training.config_of("hardnet", 4)
    seen: list[torch.nn.Module] = []
    create = _training.networks.create
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_training.networks, "create", lambda *a, **o: seen.append(create(*a, **o)) or seen[-1])
        step = speed.plain_step(config, source)
    before = [value.clone() for value in seen[0].parameters()]
    step()
    assert any(not torch.equal(old, new) for old, new in zip(before, seen[0].parameters(), strict=True))


def test_growth_is_measured_upwards(photos: Photos) -> None:
    result = speed.growth(photos, [MODEL], counts=(30, 10), device="cpu")
    rows = result.scores[MODEL]["rows"]
    assert [row["keypoints"] for row in rows] == [10, 30]
    assert all(row["seconds"] > 0 and row["peak_mib"] > 50 for row in rows)
    header, cells = growth_table(result.scores)
    assert [row[:2] for row in cells] == [[MODEL, "10"], [MODEL, "30"]] and len(header) == len(cells[0])
    with pytest.raises(UserError, match="two counts"):
        speed.growth(photos, [MODEL], counts=(10,))


def test_the_power_of_growth() -> None:
    rows = [{"keypoints": count, "seconds": 3e-5 * count**1.5} for count in (500, 2000, 10_000)]
    assert _growth._power(rows) == 1.5


def test_more_keypoints_than_there_are(photos: Photos) -> None:
    found = photos.keypoints[0]
    many = _growth._many(found, 3 * len(found))
    assert len(many) == 3 * len(found)
    assert float((many.xy[len(found) : 2 * len(found)] - found.xy).abs().max()) <= 3.0
    assert len(many.unique_places()) > 2 * len(found), "the same patch again and again would be read from the cache"


@pytest.fixture(scope="module")
def matched(photos: Photos) -> Any:
    return bench(photos, ["match"], [MODEL], rounds=1, device="cpu")


def test_the_fastest_comes_first(matched: Any) -> None:
    stage = matched.scores["match"]
    header, rows = stage_table(stage)
    times = [stage["contenders"][row[0]]["best_ms"] for row in rows]
    assert times == sorted(times) and len(rows) == len(stage["contenders"])
    assert all(len(row) == len(header) for row in rows)
    (bits,) = (row for row in rows if row[0] == "patchprint, bits")
    assert "OpenCV BFMatcher, bits" in bits[-1]


def test_pictures_name_all_contenders(matched: Any, photos: Photos, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw(matched, tmp_path / "bench.svg")
        draw(speed.growth(photos, [MODEL], counts=(5, 10), device="cpu"), tmp_path / "growth.svg")
    text = (tmp_path / "bench.svg").read_text()
    assert all(name in text for name in matched.scores["match"]["contenders"])
    assert MODEL in (tmp_path / "growth.svg").read_text()


def test_a_machine_without_the_command_line(photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos.save(tmp_path / "photos.npz")
    words = ["speed", str(tmp_path / "photos.npz"), str(tmp_path / "out.json"), "--stages", "match", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*words, "--models", MODEL, "--device", "cpu"])
    __main__.main()
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["benchmark"] == "speed" and result["data"]["keypoints"] == photos.facts()["keypoints"]

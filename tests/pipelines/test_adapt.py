"""Tuning to one's own photos: what is held out stays out, the numbers are there, and hopeless photos are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

cv2 = pytest.importorskip("cv2")
pytest.importorskip("skimage.data")


from patchprint import cli, networks  # noqa: E402
from patchprint.features import load  # noqa: E402
from patchprint.networks import weights  # noqa: E402
from patchprint.patches import track_files  # noqa: E402
from patchprint.patches.codecs import encode_png  # noqa: E402
from patchprint.patches.sources import bundled, homographies  # noqa: E402
from patchprint.patches.tracks import TrackStore  # noqa: E402
from patchprint.pipelines import adapt  # noqa: E402
from patchprint.training import TrainConfig, assembly  # noqa: E402
from support.fake_models import ConstantModel  # noqa: E402


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder that already holds the tracks of a scene of eight photos."""
    work = tmp_path_factory.mktemp("work")
    images, tracks = homographies.make_tracks([bundled.image("camera")], num_views=7, seed=0, max_keypoints=600)
    names = track_files.Names([f"{i}.png" for i in range(len(images))], ["camera"])
    track_files.write(work / "tracks", map(encode_png, images), tracks, names)
    return work


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "start.safetensors"
    network = networks.create("hardnet", width=8)
    weights.save(network, path)
    return path


@pytest.mark.slow
def test_command_writes_weights_numbers_and_report(
    scene: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned.safetensors"
    arguments = [str(tmp_path), "--out", str(out), "--model", str(start), "--work", str(scene), "--device", "cpu"]
    assert cli.main(["adapt", *arguments, "--steps", "4", "--batch", "64", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["scores"]) == {"start", "tuned", "sift", "rootsift"}
    assert all(0 <= value <= 1 for score in result["scores"].values() for value in score.values())
    tuned = weights.load_network(out)
    assert tuned.info.sha256 == result["model"]["sha256"] != weights.load_network(start).info.sha256
    assert "tuned from" in tuned.info.notes and "camera" in tuned.info.training.data
    assert tuned.info.training.config["steps"] == 4 and tuned.info.training.start == "hardnet"
    assert tuned.info.ratio is not None and 0.5 <= tuned.info.ratio <= 1, "what is written is calibrated"
    report = out.with_suffix(".html").read_text()
    assert "held-out photos" in report
    assert adapt.VERDICTS[result["model"]["verdict"]] in report
    assert f"patchprint match A.jpg B.jpg --model {out}" in report, "the command on the page works as it stands"
    assert cli.main(["adapt", *arguments]) == 2
    assert "--force" in capsys.readouterr().err


def test_bits_are_tuned_by_a_loss_for_bits(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights.save(networks.create("doap-binary", width=8), tmp_path / "bits.safetensors")
    seen: list[TrainConfig] = []

    def stop(config: TrainConfig, *_: object, **__: object) -> None:
        seen.append(config)
        raise InterruptedError

    monkeypatch.setattr(adapt, "train", stop)
    plan = adapt.AdaptPlan(model=str(tmp_path / "bits.safetensors"), batch=64, device="cpu")
    with pytest.raises(InterruptedError):
        adapt.adapt(tmp_path, tmp_path / "tuned.safetensors", scene, plan)
    state = assembly.create(seen[0], torch.device("cpu"))
    assert state.loss.binary and state.network.kind == "binary"


def test_held_out_photos_and_points_are_not_learned_from(scene: Path) -> None:
    store = TrackStore.open(scene / "tracks")
    learned, unseen = adapt._hold_images_out(store, 0.25, seed=0)
    assert len(unseen) == 2
    assert not np.isin(learned.tracks.image, unseen).any()
    assert learned.num_views.min() >= 2
    trained = learned.split("train")
    held_out = store.split("val")
    seen = {tuple(xy) for xy in _positions(trained)}
    assert seen.isdisjoint({tuple(xy) for xy in _positions(held_out)})
    first, second, is_match = adapt._pairs_with_images(store, unseen, seed=0)
    tracks = store.tracks
    assert np.isin(tracks.image[first], unseen).all()
    assert not np.isin(tracks.image[second], unseen).any()
    assert np.array_equal(tracks.point[first] == tracks.point[second], is_match)


def test_constant_prints_confuse_all_points_and_pixels_only_some(scene: Path) -> None:
    store = TrackStore.open(scene / "tracks")
    _, unseen = adapt._hold_images_out(store, 0.25, seed=0)
    models = {"constant": ConstantModel(), "pixels": load("pixels")}
    scores, trials = adapt.measure(models, store, unseen, seed=0)
    assert adapt.verdict(scores["constant"], scores["pixels"], trials) == "gained"
    assert adapt.verdict(scores["pixels"], scores["constant"], trials) == "lost"
    count = int((store.split("val").num_views >= 2).sum())
    assert scores["constant"]["confused_held_out_points"] == pytest.approx(1 - 1 / count)
    assert scores["constant"]["fpr95_held_out_points"] == 1
    assert 0 < scores["pixels"]["confused_held_out_points"] < 0.9


@pytest.mark.parametrize(
    ("tuned", "expected"),
    [
        ((0.05, 0.1, 0.2), "gained"),
        ((0.05, 0.1, 0.3), "mixed"),
        ((0.1, 0.2, 0.2), "lost"),
        ((0.1, 0.1, 0.2), "no difference"),
        ((0.099, 0.101, 0.199), "no difference"),
    ],
)
def test_the_verdict_looks_beyond_chance(tuned: tuple[float, ...], expected: str) -> None:
    start, after = (dict(zip(adapt.MEASURES, values, strict=True)) for values in ((0.1, 0.1, 0.2), tuned))
    assert adapt.verdict(start, after, dict.fromkeys(adapt.MEASURES, 5000)) == expected
    assert expected in adapt.VERDICTS


def test_wrong_settings_are_told_before_photos_are_reconstructed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--batch is 1"):
        adapt.adapt(tmp_path, tmp_path / "t.safetensors", tmp_path / "work", adapt.AdaptPlan(batch=1))
    assert not any(tmp_path.iterdir())


def test_photos_that_share_nothing_are_refused(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycolmap")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("camera", "coins", "moon"):
        cv2.imwrite(str(folder / f"{name}.jpg"), bundled.image(name)[:200, :200])
    assert cli.main(["adapt", str(folder), "--out", str(tmp_path / "t.safetensors"), "--model", str(start)]) == 2
    message = capsys.readouterr().err
    assert "overlap" in message
    assert not (tmp_path / "t.safetensors").exists()


def _positions(store: TrackStore) -> np.ndarray:
    rows = [int(store._start[i]) + v for i in range(store.num_points) for v in range(int(store.num_views[i]))]
    return np.c_[store.tracks.image[rows], store.tracks.xy[rows]]

"""Tuning to one's own images: what is held out stays out, the numbers are there, and hopeless images are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

cv2 = pytest.importorskip("cv2")
pytest.importorskip("skimage.data")


from patchprint import cli, networks  # noqa: E402
from patchprint.data import track_files  # noqa: E402
from patchprint.data.builders import bundled_images, homographies  # noqa: E402
from patchprint.data.tracks import TrackStore  # noqa: E402
from patchprint.interop.images import encode_image  # noqa: E402
from patchprint.matching.matchers.graph import read_weights  # noqa: E402
from patchprint.networks import weights  # noqa: E402
from patchprint.pipelines import adaptation  # noqa: E402
from patchprint.pipelines.adapt_judge import MATCHER_VERDICTS, VERDICTS  # noqa: E402
from patchprint.training import TrainConfig, assembly  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_calibration")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder that already holds the tracks of a scene of eight images."""
    work = tmp_path_factory.mktemp("work")
    photo = bundled_images.image("camera")[130:490, 80:440]
    images, tracks = homographies.make_tracks([photo], num_views=7, seed=0, max_keypoints=600)
    names = track_files.Names([f"{i}.png" for i in range(len(images))], ["camera"])
    track_files.write(work / "tracks", map(encode_image, images), tracks, names)
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
    assert result["scores"]["sift"]["inliers"] > 0
    tuned = weights.load_network(scene / "tuned.safetensors")
    written = weights.load_network(out)
    assert written.info.sha256 == result["model"]["sha256"]
    gained = result["model"]["verdict"] == "gained"
    assert (written.info.sha256 == tuned.info.sha256) == gained
    assert "verified matches on held-out images" in written.info.notes
    assert tuned.info.sha256 != weights.load_network(start).info.sha256
    assert "camera" in tuned.info.training.data
    assert tuned.info.training.config["steps"] == 4 and tuned.info.training.start == "hardnet"
    assert written.info.ratio is not None and 0.5 <= written.info.ratio <= 1, "what is written is calibrated"
    report = out.with_suffix(".html").read_text()
    assert "held-out images" in report
    assert VERDICTS[result["model"]["verdict"]] in report
    assert f"patchprint match A.jpg B.jpg --model {out}" in report, "the command on the page works as it stands"
    assert cli.main(["adapt", *arguments]) == 2
    assert "--force" in capsys.readouterr().err


def test_bits_are_tuned_by_a_loss_for_bits(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights.save(networks.create("doap-binary", width=8), tmp_path / "bits.safetensors")
    seen: list[TrainConfig] = []

    def stop(config: TrainConfig, *_: object, **__: object) -> None:
        seen.append(config)
        raise InterruptedError

    monkeypatch.setattr(adaptation, "train", stop)
    settings = adaptation.AdaptSettings(model=str(tmp_path / "bits.safetensors"), batch=72, device="cpu")
    with pytest.raises(InterruptedError):
        adaptation.adapt(tmp_path, out=tmp_path / "tuned.safetensors", work=scene, settings=settings)
    state = assembly.create(seen[0], torch.device("cpu"))
    assert state.loss.binary and state.network.kind == "binary"
    assert seen[0].batcher == "neighbors" and seen[0].batcher_options == {"run": 8}, "as many as divide the batch"


def test_held_out_photos_and_points_are_not_learned_from(scene: Path) -> None:
    store = TrackStore.open(scene / "tracks")
    unseen = adaptation._unseen(store, 0.25, seed=0)
    learned = adaptation._without_images(store, unseen)
    assert len(unseen) == 2
    assert not np.isin(learned.tracks.image, unseen).any()
    assert learned.num_views.min() >= 2
    trained = learned.split("train")
    held_out = store.split("val")
    seen = {tuple(xy) for xy in _positions(trained)}
    assert seen.isdisjoint({tuple(xy) for xy in _positions(held_out)})


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["gained", "no difference"])
def test_the_start_weights_are_kept_unless_something_was_gained(
    scene: Path, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(adaptation, "verdict", lambda *_: answer)
    # What is measured is measured by the command above.
    monkeypatch.setattr(adaptation.HeldOutPairs, "verified_matches", lambda *_: np.array([7.0]))
    monkeypatch.setattr(adaptation, "_ratio", lambda *_: 0.8)
    settings = adaptation.AdaptSettings(model=str(start), steps=4, batch=64, device="cpu")
    out = tmp_path / "out.safetensors"
    result = adaptation.adapt(tmp_path, out=out, work=scene, settings=settings, report=lambda _: None)
    written, began = (weights.load_network(path) for path in (tmp_path / "out.safetensors", start))
    same = all(
        torch.equal(a, b.half().to(a.dtype)) for a, b in zip(written.parameters(), began.parameters(), strict=True)
    )
    assert same == (answer != "gained")
    assert result.model["verdict"] == answer
    assert ("the weights of" in written.info.notes and answer in written.info.notes) == (answer != "gained")
    assert ("tuned from" in written.info.notes) == (answer == "gained")
    assert written.info.ratio == 0.8, "both are calibrated by the same images"


def test_photos_that_share_nothing_are_refused(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycolmap")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("camera", "coins", "moon"):
        cv2.imwrite(str(folder / f"{name}.jpg"), bundled_images.image(name)[:200, :200])
    assert cli.main(["adapt", str(folder), "--out", str(tmp_path / "t.safetensors"), "--model", str(start)]) == 2
    message = capsys.readouterr().err
    assert "overlap" in message
    assert not (tmp_path / "t.safetensors").exists()


def _positions(store: TrackStore) -> np.ndarray:
    rows = [int(store._start[i]) + v for i in range(store.num_points) for v in range(int(store.num_views[i]))]
    return np.c_[store.tracks.image[rows], store.tracks.xy[rows]]


@pytest.mark.slow
def test_the_matcher_is_tuned_on_images_that_are_not_held_out(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    out, work = tmp_path / "mine.safetensors", tmp_path / "work"
    shutil.copytree(scene / "tracks", work / "tracks")
    arguments = [
        "adapt",
        str(tmp_path),
        "--out",
        str(out),
        "--model",
        "rootsift",
        "--work",
        str(work),
        "--tune",
        "matcher",
    ]
    assert cli.main([*arguments, "--matcher-steps", "6", "--held-out", "0.3", "--device", "cpu", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["scores"]) == {"matcher before", "matcher tuned"}
    assert result["scores"]["matcher tuned"]["inliers"] > 0
    answer = result["model"]["matcher_verdict"]
    assert MATCHER_VERDICTS[answer] in out.with_suffix(".html").read_text()
    written = work / "matcher" / "best.safetensors" if answer == "gained" else work / "matcher-before.safetensors"
    assert out.read_bytes() == written.read_bytes()
    before, tuned = (read_weights(file, torch.device("cpu")) for file in (work / "matcher-before.safetensors", out))
    assert before.model == tuned.model and before.model.name == "rootsift" and 0 < before.threshold < 1
    unseen = adaptation._unseen(TrackStore.open(work / "tracks"), 0.3, 0).tolist()
    described = {int(path.stem) for path in (tmp_path / "cache" / "matcher").glob("*/*.npz")}
    assert described == set(range(8)) - set(unseen) and len(unseen) == 2
    config = json.loads((work / "matcher" / "config.json").read_text())
    assert config["batcher_options"]["leave_out"] == unseen and config["steps"] == 6

"""What patchprint writes, as pairs of writing and reading: the faults are injected into each of them."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import pycolmap

from patchprint.common import files
from patchprint.data import manifest
from patchprint.features.extract import DescribeSettings
from patchprint.interop import colmap_sfm, hloc, opencv_files
from patchprint.networks import create, hub_folder, weights
from patchprint.report import page
from patchprint.storage import feature_files, feature_formats
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.feature_folder import describe_folder
from patchprint.storage.shards import Shards
from support import training_data
from support.known_images import texture
from support.made_features import descriptors, features

OLD, NEW = 0, 1


@dataclass(frozen=True)
class Writer:
    """``write`` puts one of two contents to a path, whatever is there; ``read`` gives what tells them apart, and fails where
    anything is cut or damaged."""

    name: str
    write: Callable[[Path, int], object]
    read: Callable[[Path], Any]
    suffix: str = ""
    locks: bool = False
    """Whether a second writer at the same time is refused."""


def all_writers(work: Path) -> dict[str, Writer]:
    """By name; ``work`` is a folder for what they write from."""
    points = [features(descriptors(60, seed=seed)) for seed in (OLD, NEW)]
    networks = [create("hardnet", width=2 + which, dim=16) for which in (OLD, NEW)]
    stored = [work / f"weights-{which}.safetensors" for which in (OLD, NEW)]
    for network, path in zip(networks, stored, strict=True):
        weights.save(network, path)
    tracks = [training_data.images(points=10 + which, views=2) for which in (OLD, NEW)]
    described = _described(work)
    models = [_model(seed) for seed in (OLD, NEW)]

    def form(name: str) -> Callable[[Path, int], object]:
        return lambda out, which: feature_formats.write_features(described[which], out, name, force=True)

    found = [
        Writer(
            "json", lambda out, which: files.write_json(out, [which] * 3000), lambda path: json.loads(path.read_text())
        ),
        Writer(
            "features",
            lambda out, which: feature_files.save_features(points[which], out),
            lambda path: _numbers(feature_files.load_features(path)),
        ),
        Writer("shard", lambda out, which: _write_shard(out, points[which]), _read_shard),
        Writer("page", lambda out, which: page.write(_page(which), out), _read_page, ".html"),
        Writer(
            "weights",
            lambda out, which: weights.save(networks[which], out),
            lambda path: weights.load_network(path).info.sha256,
            ".safetensors",
        ),
        Writer(
            "hloc", form("hloc"), lambda path: {name: _numbers(item) for name, item in hloc.read_features(path)}, ".h5"
        ),
        Writer("colmap", form("colmap"), _read_database, ".db"),
        Writer("opencv-yml", form("opencv-yml"), _read_yml, locks=True),
        Writer("store", lambda out, which: tracks[which].save(out, force=True), _read_store, locks=True),
        Writer(
            "hub", lambda out, which: hub_folder.write_folder(stored[which], out, force=True), _read_hub, locks=True
        ),
        Writer("ply", lambda out, which: colmap_sfm.write_ply(models[which], out), Path.read_bytes, ".ply"),
    ]
    return {writer.name: writer for writer in found}


def _described(work: Path) -> list[FeatureFolder]:
    (work / "photos").mkdir(parents=True)
    for number in range(2):
        cv2.imwrite(str(work / "photos" / f"{number}.png"), texture(100, 120, number))
    return [
        describe_folder(
            work / "photos", work / f"features-{which}", DescribeSettings(model="rootsift", max_keypoints=20 + which)
        )
        for which in (OLD, NEW)
    ]


def _model(seed: int) -> Any:
    pycolmap.set_random_seed(seed)
    return pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=400 + seed))


def _numbers(item: Any) -> tuple[int, bytes]:
    return len(item), item.descriptors.numpy().tobytes()


def _read_hub(path: Path) -> str:
    found = json.loads((path / "config.json").read_text("utf-8"))["sha256"]
    network = weights.load_network(path / "model.safetensors")
    assert weights.weights_sha256(network.state_dict()) == found and found in (path / "README.md").read_text("utf-8")
    return found


def _page(which: int) -> page.Page:
    return page.Page("a page", sections=[page.Section("text", [page.Text(f"{which} " * 3000)])])


def _read_page(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</html>")
    return NEW if text.count("1 ") > text.count("0 ") else OLD


class _Alone(Shards):
    """One shard, in the file that is asked for."""

    def path(self, number: int) -> Path:
        return self.folder


def _write_shard(path: Path, item: feature_files.Features) -> None:
    _Alone(path, ["a.png"], 1).add(0, {"a.png": feature_files.to_bytes(item)})


def _read_shard(path: Path) -> Any:
    return _numbers(feature_files.load_features("a.png", _Alone(path, ["a.png"], 1).read("a.png")))


def _read_database(path: Path) -> Any:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute("SELECT rows, data FROM keypoints ORDER BY image_id").fetchall()


def _read_yml(path: Path) -> Any:
    json.loads((path / opencv_files.SETTINGS).read_text())
    return {name: _numbers(item) for name, item in opencv_files.read_folder(path)}


def _read_store(path: Path) -> Any:
    manifest.verify(path)
    return manifest.read(path)["files"]

"""Pictures and the stores that are made of them."""

import json
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image

from fuzz import mutators
from fuzz.reader import Reader
from patchprint.data import TrackStore, manifest, open_source
from patchprint.interop import images
from support import image_sets, stores, synthetic_tracks
from support.known_images import texture


def write_pictures(folder: Path) -> None:
    picture = cv2.merge([texture(64, 72, number) for number in range(3)])
    for suffix in ("jpg", "png", "bmp", "tif", "webp", "ppm", "jp2"):
        assert cv2.imwrite(str(folder / f"a.{suffix}"), picture)
    exif = Image.Exif()
    exif.get_ifd(0x8825).update({1: "S", 2: (33.0, 51.0, 24.48), 3: "E", 4: (151.0, 12.0, 55.08)})
    Image.fromarray(picture).save(folder / "a.jpg", exif=exif)
    cv2.imwrite(str(folder / "deep.png"), picture.astype(np.uint16) * 200)


def read_pictures(folder: Path) -> None:
    for name in images.list_images(folder):
        images.read_gps(folder / name)  # of a damaged file none, without an error
        for read in (images.read_gray, images.read_color, images.image_size):
            read(folder / name)


def write_patches(folder: Path) -> None:
    patches = np.random.default_rng(0).integers(0, 256, (30, 8, 8), dtype=np.uint8)
    stores.write_patches(folder / "store", patches, pairs={"p": np.array([[0, 1, 1], [2, 3, 0]])})


def write_tracks(folder: Path) -> None:
    pictures, tracks, *_ = synthetic_tracks.plane_tracks(points=6, count=2)
    TrackStore.from_images(pictures, tracks).save(folder / "store")


def read_store(folder: Path) -> None:
    source = open_source(folder / "store")
    points = torch.arange(source.num_points)
    source.sample(points, torch.zeros(len(points), 1, dtype=torch.int64), 8)
    if hasattr(source, "pairs"):
        for name in source.facts["pairs"]:
            source.pairs(name)
    if hasattr(source, "class_names"):
        source.names.copy()


def fit_manifest(folder: Path, file: Path) -> None:
    """The manifest says the size of the damaged file, so that its contents come to be read."""
    path = file.parent / manifest.NAME
    if file != path:
        facts = json.loads(path.read_text())
        facts["files"][file.name]["bytes"] = file.stat().st_size
        path.write_text(json.dumps(facts))


READERS: dict[str, Reader] = {
    "pictures": Reader(write_pictures, read_pictures, {"a.*": mutators.BYTES, "deep.png": mutators.BYTES}),
    "patch store": Reader(write_patches, read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/manifest.json": mutators.JSON}, fit_manifest),
    "track store": Reader(write_tracks, read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/*.txt": mutators.TEXT, "store/*.bin": mutators.BYTES,
                           "store/manifest.json": mutators.JSON}, fit_manifest),
    "image store": Reader(lambda folder: image_sets.write_store(folder / "store", 4, 2, (8, 10)), read_store,
                          {"store/*.npy": mutators.ARRAYS, "store/*.json": mutators.JSON}, fit_manifest),
}  # fmt: skip

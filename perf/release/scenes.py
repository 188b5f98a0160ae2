"""Scenes of public repositories for training: unpack their images, and make stores small enough to be carried to a GPU.

    python -m perf.release.scenes unpack --mirrors ../.mirror --out data/scenes
    python -m perf.release.scenes shrink data/dense/castle data/small/castle --most 30
    python -m perf.release.scenes sequences data/bodleian data/valid-sequences --most 8

``results/training/scenes.json`` names repositories, commits, licenses and images with their SHA-256. ``unpack`` writes them as
gray PNG of at most 640 pixels a side into ``OUT/SCENE/images`` (COLMAP reads no WebP); an image that is not there, or is not
the one that is listed, is named. ``shrink`` writes a store again with WebP images of at most 640 pixels and tracks to match.
``sequences`` writes warped copies of the images of a store as sequences with homographies, for ``patchprint data build
hpatches-sequences``: validation data for patches that others cut.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file
from patchprint.common.safe_io import read_json
from patchprint.data import track_files
from patchprint.data.builders.homographies import View, render_views
from patchprint.data.tracks import Tracks
from patchprint.interop.images import decode_gray, encode_image, limit_size
from patchprint.matching.calibration import some_images
from perf.release.wild_images import git_folder, read_blob

LIST = Path("results/training/scenes.json")
MAX_SIZE = 640
QUALITY = 70


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    unpacked = commands.add_parser("unpack")
    unpacked.add_argument("--mirrors", type=Path, required=True)
    unpacked.add_argument("--list", type=Path, default=LIST)
    unpacked.add_argument("--out", type=Path, required=True)
    shrunk = commands.add_parser("shrink")
    shrunk.add_argument("store", type=Path)
    shrunk.add_argument("out", type=Path)
    shrunk.add_argument("--most", type=int, help="keep so many images, evenly; default: all")
    shrunk.add_argument("--quality", type=int, default=QUALITY)
    warped = commands.add_parser("sequences")
    warped.add_argument("store", type=Path)
    warped.add_argument("out", type=Path)
    warped.add_argument("--most", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.command == "sequences":
        write_sequences(arguments.store, arguments.out, arguments.most)
        return 0
    if arguments.command == "shrink":
        shrink(arguments.store, arguments.out, arguments.most, arguments.quality)
        return 0
    missing = unpack(read_json(arguments.list, "a list of scenes"), arguments.mirrors, arguments.out)
    for each in missing:
        print(f"not found: {each}", file=sys.stderr)
    return 1 if missing else 0


def unpack(listed: dict[str, Any], mirrors: Path, out: Path) -> list[str]:
    """Write the images of a list below ``out``, numbered by their order in it; returns what was not found."""
    missing: list[str] = []
    for scene in tqdm(listed["scenes"], desc="scenes", disable=None):
        repository = git_folder(mirrors, scene["repository"])
        if repository is None:
            missing.append(f"a copy of {scene['repository']}")
            continue
        for number, image in enumerate(scene["images"]):
            where = f"{image['path']} in {scene['repository']}"
            try:
                content = read_blob(repository, scene["commit"], image["path"])
            except UserError:
                missing.append(where)
                continue
            if hashlib.sha256(content).hexdigest() != image["sha256"]:
                missing.append(f"{where} with the listed SHA-256")
                continue
            path = out / scene["name"] / "images" / f"{number:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as temporary:
                temporary.write_bytes(encode_image(limit_size(decode_gray(content, where), MAX_SIZE)))
    return missing


def shrink(store: Path, out: Path, most: int | None, quality: int) -> None:
    """Write a store of tracks with smaller images, of which ``most`` are kept; points that are seen once then fall away."""
    stored = track_files.read(store)
    count = len(stored.names.images)
    kept = np.unique(np.linspace(0, count - 1, min(most or count, count)).round().astype(int))
    factor = np.minimum(1.0, MAX_SIZE / stored.sizes.max(1))
    rows = np.isin(stored.arrays["image"], kept)
    rows &= (np.bincount(stored.arrays["point"][rows], minlength=len(stored.arrays["scene"])) >= 2)[
        stored.arrays["point"]
    ]
    image, point = stored.arrays["image"][rows], stored.arrays["point"][rows]
    scale = factor[image].astype(np.float32)
    place = np.zeros(count, np.int32)
    place[kept] = np.arange(len(kept))
    seen, dense = np.unique(point, return_inverse=True)
    xy = (stored.arrays["xy"][rows] + 0.5) * scale[:, None] - 0.5
    tracks = Tracks(  # rounded, so that archives of it are small
        image=place[image],
        xy=(np.rint(xy * 64) / 64).astype(np.float32),
        scale=(stored.arrays["scale"][rows] * scale).astype(np.float16).astype(np.float32),
        angle=stored.arrays["angle"][rows].astype(np.float16).astype(np.float32),
        point=dense.astype(np.int32),
        scene=np.array(stored.arrays["scene"][seen]),
    )
    tracks = dataclasses.replace(tracks, part=np.array(stored.arrays["part"][seen]))
    names = track_files.Names([stored.names.images[number] for number in kept], stored.names.scenes)
    encoded = (encode_webp(limit_size(stored.image(number), MAX_SIZE), quality) for number in kept)
    track_files.write(out, encoded, tracks, names, patch_scale=stored.patch_scale)


def write_sequences(store: Path, out: Path, most: int) -> None:
    """Write ``most`` images of a store, each with five copies that are warped and relit more and more, and the homographies."""
    for number, image in enumerate(some_images(store, most)):
        folder = out / f"v_{number:02d}"
        folder.mkdir(parents=True)
        views = [View(image, np.eye(3))] + [
            render_views(image, 1, seed=10 * number + step, strength=0.3 * step)[1] for step in range(1, 6)
        ]
        for place, view in enumerate(views, start=1):
            (folder / f"{place}.png").write_bytes(encode_image(view.image))
            if place > 1:
                np.savetxt(folder / f"H_1_{place}", view.homography)


def encode_webp(image: np.ndarray, quality: int) -> bytes:
    """Encode a gray image (H, W) as WebP, which stores brightness alone in full resolution."""
    cv2 = require("cv2", extra="images")
    done, data = cv2.imencode(".webp", image, [cv2.IMWRITE_WEBP_QUALITY, quality])
    if not done:
        raise UserError(f"an image of shape {image.shape} cannot be encoded as WebP")
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main())

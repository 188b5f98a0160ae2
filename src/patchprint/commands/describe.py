"""``patchprint describe PHOTOS --out OUT``: descriptors of many photos, at keypoints or of the whole, for the next tool."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from patchprint import files
from patchprint.commands.output import emit, say
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.devices import choose_device
from patchprint.errors import UserError
from patchprint.features import embeddings, formats, storage
from patchprint.features.folder import DescribeSettings, describe_folder
from patchprint.features.model import DEFAULT_MODEL, ImageModel, load


def main(
    images: tyro.conf.Positional[Path],
    /,
    out: Path,
    model: str = DEFAULT_MODEL,
    format: Literal["npz", "hloc", "colmap", "opencv-yml"] = "npz",
    detector: Annotated[
        str, tyro.conf.arg(help="what finds keypoints; the affine ones for views from far apart")
    ] = "dog",
    max_keypoints: int = MAX_KEYPOINTS,
    upright: bool = False,
    spread: bool = True,
    exif: bool = False,
    workers: int = 1,
    device: str = "auto",
    force: bool = False,
    json: bool = False,
) -> int:
    """Detect and describe the keypoints of photos; with a model of whole images, each photo as one.

    Args:
        images: folder of photos, searched with its subfolders
        out: folder (npz, opencv-yml) or file (hloc: features.h5, colmap: database.db; of whole images: .npz) to write
        model: shipped weights (hardnet.small is the fast one), a baseline, or a weight file; with weights of an embedding
            network, what is said about keypoints, workers and formats plays no part
        format: npz continues where it stopped; hloc and colmap are single files, written at the end
        max_keypoints: per photo, by response
        upright: ignore the orientation of keypoints
        spread: keep the strongest keypoints wherever they are; by default every part of a photo gets its share
        exif: turn photos as EXIF says; by default pixels are taken as stored, as COLMAP does
        workers: processes that work side by side; under torchrun the photos are shared out as well
        device: auto, cpu, cuda or mps
        force: replace what is there
        json: print the result as JSON
    """
    first = int(os.environ.get("RANK", 0)) == 0
    chosen = str(choose_device(device))
    whole = load(model, chosen)
    if isinstance(whole, ImageModel):
        return _describe_whole_images(images, out, whole, format, exif, force, json)
    settings = DescribeSettings(model, detector, max_keypoints, upright, spread, exif, chosen)
    # Single-file formats are made of the same per-photo files, kept beside them until the file is complete.
    parts = out if format == "npz" else out.with_name(f".{out.name}.parts")
    files.refuse_overlap(out, images)
    if first and format == "opencv-yml":
        files.refuse_folder(out, storage.MADE_BY, force)
    elif first and format != "npz":
        files.refuse_overwrite(out, force)
    with files.only_writer(parts) if first else contextlib.nullcontext():
        features = describe_folder(images, parts, settings, workers, report=say, force=force)
        if not first:
            return 0
        if format != "npz":
            formats.write_features(features, out, format, force)
            files.remove_folder(parts)
    left_out = len(features.manifest["photos"]) - len(features)
    counts = [len(item) for item in features.values()] if format == "npz" else None
    result = {
        "out": str(out),
        "format": format,
        "model": features.manifest["model"],
        "photos": len(features),
        "left_out": left_out,
        "keypoints": None if counts is None else sum(counts),
    }
    emit(result, json, f"{out}: {len(features)} photos described with {result['model']['name']}, {left_out} left out")
    return 0


def _describe_whole_images(
    images: Path, out: Path, model: ImageModel, format: str, exif: bool, force: bool, json: bool
) -> int:
    if format != "npz" or out.suffix != embeddings.SUFFIX:
        raise UserError(
            f"{model.info.name} describes whole images, which are written to one file: leave --format out, and give --out a "
            f"name that ends in {embeddings.SUFFIX}"
        )
    files.refuse_overwrite(out, force)
    found = embeddings.embed_folder(images, model, exif, report=say)
    embeddings.save(found, out)
    result = {"out": str(out), "model": asdict(found.model), "photos": len(found.names), "dim": model.dim}
    emit(result, json, f"{out}: {len(found.names)} whole photos described with {model.info.name}")
    return 0

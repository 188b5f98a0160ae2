"""``patchprint describe IMAGES --out OUT``: features of a folder of images, or an embedding of each whole image."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import tyro

from patchprint.cli import emit, say
from patchprint.cli.ray_options import ManyImages, device_there, where_and_how
from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.progress import json_lines
from patchprint.features import image_model
from patchprint.features.extract import DescribeSettings
from patchprint.features.image_model import ImageModel, load_any
from patchprint.interop.images import path_or_url, unusable_names
from patchprint.storage import colmap_output, feature_formats
from patchprint.storage.feature_folder import describe_folder


def main(
    images: tyro.conf.Positional[str],
    out: Path,
    describe: DescribeSettings,
    work: ManyImages,
    format: Literal["npz", "hloc", "colmap", "colmap-graph", "opencv-yml"] = "npz",
    masks: Path | None = None,
    strict: bool = False,
    shards: bool = False,
    workers: int | None = None,
) -> int:
    """Detect and describe the keypoints of images; a model of whole images describes each image as one.

    Args:
        images: folder of images, searched with its subfolders; or the URL of one in object storage (s3://, gs://)
        out: folder (npz, opencv-yml) or file (hloc: features.h5, colmap: database.db; of whole images: .npz) to write
        format: npz continues where it stopped; hloc and colmap are single files, written at the end. colmap-graph appends scale
            and angle to the descriptors, for the matcher of patchprint export --tool colmap. A COLMAP database with matches is
            written by patchprint match FEATURES --out database.db
        masks: folder of masks, NAME.png for the image NAME (a.jpg: a.jpg.png or a.png); no keypoints where a mask is black
        strict: stop at the first image that cannot be read; by default it is named and left out
        shards: npz: many images in each file; for ten thousand images and more
        workers: number of worker processes (default: 1, with a GPU all cores)
    """
    cluster, engine = where_and_how(describe.engine, work.address)
    place, there = path_or_url(images), device_there(describe.device, cluster)
    model = load_any(describe.model, there if cluster is None else "cpu", engine=engine)
    if isinstance(model, ImageModel):
        if cluster is not None:
            raise UserError("whole images are described in one process; leave --engine ray out")
        return _describe_whole_images(place, out, model, format, describe.exif, strict, work)
    if isinstance(place, Path):
        files.refuse_overlap(out, place)
    feature_formats.check_output(out, format, describe.exif, work.force)
    if format.startswith("colmap"):
        colmap_output.refuse_url(place)
    # Single-file formats are made of the same per-image files, kept beside them until the file is complete.
    parts = out if format == "npz" else out.with_name(f".{out.name}.parts")
    with json_lines(work.progress), files.exclusive_writer(parts):
        features = describe_folder(
            place,
            parts,
            replace(describe, device=there, engine=engine),
            masks=masks,
            workers=workers,
            report=say,
            force=work.force,
            strict=strict,
            shards=shards,
            cluster=cluster,
        )
        keypoints = sum(map(len, features.values())) if format == "npz" else None
        if format != "npz":
            feature_formats.write_features(features, out, format, work.force)
            files.remove_folder(parts)
    result = {
        "out": str(out),
        "format": format,
        "model": features.manifest["model"],
        "images": len(features),
        "left_out": len(features.left_out) + len(unusable_names(place)),
        "keypoints": keypoints,
    }
    name, left_out = result["model"]["name"], result["left_out"]
    emit(result, f"{out}: {len(features)} images described with {name}, {left_out} left out")
    if format.startswith("colmap"):
        say(
            f"where COLMAP is built with ONNX, its matchers for ALIKED take the descriptors in {out}; those for SIFT refuse "
            f"them. For matches: patchprint describe {images} --out FEATURES; patchprint match FEATURES --out {out} --force"
        )
    return 0


def _describe_whole_images(
    images: str | Path, out: Path, model: ImageModel, format: str, exif: bool, strict: bool, work: ManyImages
) -> int:
    if format != "npz" or out.suffix != image_model.SUFFIX:
        raise UserError(
            f"{model.info.name} describes whole images, which are written to one file: leave --format out, and give --out a "
            f"name that ends in {image_model.SUFFIX}"
        )
    files.check_output_file(out, work.force)
    found = image_model.embed_folder(images, model, exif=exif, report=say, strict=strict)
    image_model.save_embeddings(found, out)
    result = {"out": str(out), "model": asdict(found.model), "images": len(found.names), "dim": model.dim}
    emit(result, f"{out}: {len(found.names)} whole images described with {model.info.name}")
    return 0

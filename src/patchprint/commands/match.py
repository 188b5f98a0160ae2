"""``patchprint match A B``: two photos to inliers; ``patchprint match FEATURES --pairs ... --out M``: many."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from patchprint.commands.output import emit, say
from patchprint.detectors import DETECTORS, MAX_KEYPOINTS
from patchprint.devices import choose_device
from patchprint.errors import UserError
from patchprint.features import draw, extract, load, match, verify
from patchprint.features.formats import write_matches
from patchprint.features.matching import Mode
from patchprint.features.model import DEFAULT_MODEL
from patchprint.features.pair_lists import choose_pairs, match_pairs
from patchprint.features.storage import FeatureFolder
from patchprint.files import refuse_overwrite
from patchprint.interop import hloc
from patchprint.types import Features

Geometry = Literal["auto", "homography", "fundamental", "none"]


def main(
    a: tyro.conf.Positional[Path],
    b: tyro.conf.Positional[Path | None] = None,
    /,
    model: str = DEFAULT_MODEL,
    detector: Annotated[str, tyro.conf.arg(help=f"one of {', '.join(DETECTORS)}")] = "dog",
    max_keypoints: int = MAX_KEYPOINTS,
    upright: bool = False,
    spread: bool = True,
    exif: bool = False,
    mode: Mode = "mutual+ratio",
    ratio: float | None = None,
    geometry: Geometry = "auto",
    pairs: str = "exhaustive",
    out: Path | None = None,
    device: str = "auto",
    force: bool = False,
    json: bool = False,
) -> int:
    """Match two photos, or many.

    Args:
        a: first photo; or a folder of features (patchprint describe) or an hloc features.h5
        b: second photo
        model: shipped weights, a baseline (sift, rootsift, pixels) or a weight file
        max_keypoints: per photo, by response
        upright: ignore the orientation of keypoints
        spread: every part of a photo gets its share of the keypoints; without it the strongest are kept
        exif: turn photos as EXIF says; by default pixels are taken as stored
        mode: mutual nearest neighbours, ratio test, both, both with the first geometrically inconsistent neighbour, or all
        ratio: threshold of the ratio test; default: the model's calibrated one, else 0.8
        geometry: what the inliers must agree with; auto takes the one that matches speak for, "none" skips it
        pairs: for features: exhaustive, or a text file with two names per line
        out: two photos: picture of the inliers (.png, .jpg); features: matches as .h5 (hloc), .db (COLMAP) or .npz
        device: auto, cpu, cuda or mps
        force: replace what is there
        json: print the result as JSON
    """
    chosen = str(choose_device(device))
    if out is not None:
        refuse_overwrite(out, force)
    if b is None:
        return _match_many(a, mode, ratio, geometry, pairs, out, chosen, force, json)
    started = time.monotonic()
    used = load(model, chosen)
    settings: dict[str, Any] = {"max_keypoints": max_keypoints, "upright": upright, "detector": detector}
    settings |= {"spread": spread, "exif": exif}
    first, second = extract(a, used, **settings), extract(b, used, **settings)
    matches = match(first, second, mode, ratio, device=chosen)
    if geometry != "none":
        matches = verify(first, second, matches, geometry)
    seconds = round(time.monotonic() - started, 3)
    if out is not None:
        draw(first, second, matches, out)
        say(f"picture: {out}")
    result = {
        "model": used.info.name,
        "keypoints_a": len(first),
        "keypoints_b": len(second),
        "matches": len(matches),
        "inliers": matches.num_inliers,
        "geometry": matches.geometry,
        "verdict": None if matches.verdict is None else matches.verdict.answer,
        "probability": None if matches.verdict is None else matches.verdict.probability,
        "transform": None if matches.model is None else matches.model.tolist(),
        "indices": matches.indices.tolist(),
        "is_inlier": None if matches.inliers is None else matches.inliers.tolist(),
        "seconds": seconds,
    }
    agreeing = "" if matches.model is None else f", {matches.num_inliers} of them agree with one {matches.geometry}"
    verdict = "" if matches.verdict is None else f": {matches.verdict}"
    found = f"{len(matches)} matches{agreeing}{verdict}"
    text = f"{len(first)} and {len(second)} keypoints, {found} ({used.info.name}, {seconds} s)"
    emit(result, json, text)
    return 0


def _match_many(
    path: Path,
    mode: Mode,
    ratio: float | None,
    geometry: Geometry,
    pairs: str,
    out: Path | None,
    device: str,
    force: bool,
    json: bool,
) -> int:
    if out is None:
        raise UserError("matching many photos needs --out M.h5, M.db or M.npz (two photos: patchprint match A B)")
    features = _open(path)
    chosen = choose_pairs(list(features), pairs)
    # COLMAP verifies its own matches, with its own cameras.
    kind = None if geometry == "none" or out.suffix == ".db" else geometry
    matches = match_pairs(features, chosen, mode, ratio, geometry=kind, device=device)
    write_matches(features, matches, out, force)
    result = {
        "out": str(out),
        "photos": len(features),
        "pairs": len(matches),
        "matches": sum(len(found) for found in matches.values()),
        "inliers": None if kind is None else sum(found.num_inliers or 0 for found in matches.values()),
    }
    emit(result, json, f"{out}: {result['pairs']} pairs of {result['photos']} photos, {result['matches']} matches")
    return 0


def _open(path: Path) -> Mapping[str, Features]:
    if path.suffix == ".h5":
        return dict(hloc.read_features(path))
    if path.is_file():
        raise UserError(f"{path} is one photo: give a second one, or a folder of features (patchprint describe)")
    return FeatureFolder(path)

"""``patchprint match A B``: two photos to inliers; ``patchprint match FEATURES --pairs ... --out M``: many."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from patchprint.commands.output import emit, say
from patchprint.detectors import MAX_KEYPOINTS, check_detector
from patchprint.devices import choose_device
from patchprint.engines import AUTO
from patchprint.errors import UserError
from patchprint.features import colmap_files, load
from patchprint.features.extract import check_max_size, extract
from patchprint.features.formats import open_features
from patchprint.features.match_files import as_json, check_outputs, write_matches
from patchprint.features.matching import RATIO_MODES, Mode, check_rule
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO
from patchprint.features.pair_lists import Pair, check_pairs, choose_pairs, match_pairs
from patchprint.features.two_view import Kind
from patchprint.interop.images import read_gray
from patchprint.progress import progress
from patchprint.types import Answer, Features, Matches

LARGE = 50_000_000  # pixels that take a minute or more to search
Geometry = Literal["auto", "homography", "fundamental", "none"]


def main(
    a: tyro.conf.Positional[Path],
    b: tyro.conf.Positional[Path | None] = None,
    /,
    model: str = DEFAULT_MODEL,
    detector: Annotated[
        str, tyro.conf.arg(help="what finds keypoints; the affine ones for views from far apart")
    ] = "dog",
    max_keypoints: int = MAX_KEYPOINTS,
    max_size: int | None = None,
    upright: bool = False,
    spread: bool = True,
    exif: bool = False,
    mode: Mode = "mutual+ratio",
    ratio: float | None = None,
    geometry: Geometry = "auto",
    pairs: str = "exhaustive",
    neighbors: int | None = None,
    out: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    device: str = "auto",
    engine: str = AUTO,
    force: bool = False,
    json: bool = False,
) -> int:
    """Match two photos, or many.

    Args:
        a: first photo; or a folder of features (patchprint describe) or an hloc features.h5
        b: second photo
        model: shipped weights (hardnet.small is the fast one), a baseline, or a weight file
        max_keypoints: per photo, by response
        max_size: shrink photos whose longer side has more pixels than this (by default none); coordinates stay the photo's
        upright: ignore the orientation of keypoints
        spread: keep the strongest keypoints wherever they are; by default every part of a photo gets its share
        exif: turn photos as EXIF says; by default pixels are taken as stored
        mode: mutual nearest neighbours, ratio test, both, both with the first geometrically inconsistent neighbour, or all
        ratio: threshold of the ratio test; default: the model's calibrated one, else 0.8
        geometry: what the inliers must agree with; auto takes the one that the matches speak for, "none" skips it
        pairs: for features: exhaustive; sequential (each photo with those that follow it by name); retrieval (with those that
            look most like it); or a text file with two names per line
        neighbors: how many photos each is paired with; default 15 that follow (sequential), 30 that look like it (retrieval)
        out: file of matches: .npz, .json, .csv, .h5 (hloc) or .db (COLMAP); of two photos also a picture of the inliers
            (.png, .jpg)
        device: auto, cpu, cuda or mps
        engine: how a network is computed: float32 (exact), bfloat16, onnxruntime, openvino, int8, cuda; auto: bfloat16 where
            the CPU has it, cuda on a GPU
        force: replace what is there
        json: print the result as JSON, with the coordinates of two photos' matches
    """
    check_rule(mode, ratio)
    rule = _Rule(mode, ratio, None if geometry == "none" else geometry, str(choose_device(device)), engine)
    if b is None:
        return _match_many(a, rule, pairs, neighbors, out, force, json)
    settings: dict[str, Any] = {"max_keypoints": max_keypoints, "upright": upright, "detector": detector}
    settings |= {"spread": spread, "exif": exif, "max_size": max_size}
    return _match_two(a, b, model, settings, rule, out, force, json)


@dataclasses.dataclass(frozen=True)
class _Rule:
    """How features are matched."""

    mode: Mode
    ratio: float | None
    geometry: Kind | None
    device: str
    engine: str

    def apply(self, features: Mapping[str, Features], pairs: list[Pair]) -> dict[Pair, Matches]:
        some = features[pairs[0][0]] if pairs else None
        if some is not None and some.ratio is None and self.ratio is None and self.mode in RATIO_MODES:
            say(f"{some.model.name} has no calibrated ratio, {LOWE_RATIO} is taken; --ratio gives another")
        return match_pairs(features, pairs, self.mode, self.ratio, geometry=self.geometry, device=self.device)


def _match_two(
    a: Path, b: Path, model: str, settings: dict[str, Any], rule: _Rule, out: Sequence[Path], force: bool, json: bool
) -> int:
    folder, pair = _names(a, b)
    check_outputs(out, force, images=folder, two=True)
    if any(path.suffix.lower() == ".db" for path in out):
        colmap_files.refuse_turned(settings["exif"])
        if pair[0] == pair[1]:
            raise UserError(f"{a} is given twice; a COLMAP database holds no matches of a photo with itself")
    check_detector(settings["detector"], settings["max_keypoints"])
    check_max_size(settings["max_size"])
    started = time.monotonic()
    used = load(model, rule.device, rule.engine).for_keypoints()
    paths = dict(zip(pair, (a, b), strict=True))
    pixels = {name: read_gray(path, settings["exif"]) for name, path in paths.items()}  # both, before work begins
    if settings["max_size"] is None and max(each.size for each in pixels.values()) > LARGE:
        say(f"a photo has more than {LARGE // 10**6} megapixels; --max-size 4000 searches a smaller copy, in less time")
    features = {}
    for name in progress(list(paths), "describing", "photo"):
        features[name] = dataclasses.replace(extract(pixels.pop(name), used, **settings), image_path=paths[name])
    (found,) = rule.apply(features, [pair]).values()
    seconds = round(time.monotonic() - started, 3)
    first, second = (features[name].keypoints for name in pair)
    agreeing = "" if found.model is None else f", {found.num_inliers} of them agree with one {found.geometry}"
    verdict = "" if found.verdict is None else f": {found.verdict}"
    emit(
        {"model": used.info.name, **as_json(first, second, found), "seconds": seconds},
        json,
        f"{len(first)} and {len(second)} keypoints, {len(found)} matches{agreeing}{verdict} ({used.info.name}, {seconds} s)",
    )
    _write_each(out, lambda path: write_matches(features, {pair: found}, path, force, folder, two=True))
    return 0


def _match_many(
    path: Path, rule: _Rule, pairs: str, neighbors: int | None, out: Sequence[Path], force: bool, json: bool
) -> int:
    if not out:
        raise UserError(
            "matching many photos needs --out M.npz, .json, .csv, .h5 or .db (two photos: patchprint match A B)"
        )
    features = open_features(path)
    check_outputs(out, force, features)
    check_pairs(list(features), pairs, neighbors)
    if all(each.suffix.lower() == ".db" for each in out):  # COLMAP verifies matches itself, with its own cameras
        rule = dataclasses.replace(rule, geometry=None)
    matches = rule.apply(features, choose_pairs(features, pairs, neighbors))
    answers = Counter(found.verdict.answer for found in matches.values() if found.verdict is not None)
    result = {
        "out": [str(each) for each in out],
        "photos": len(features),
        "pairs": len(matches),
        "matches": sum(len(found) for found in matches.values()),
        "inliers": None if rule.geometry is None else sum(found.num_inliers or 0 for found in matches.values()),
        "verdicts": None if rule.geometry is None else {answer: answers[answer] for answer in get_args(Answer)},
    }
    same = (
        "" if rule.geometry is None else f"; {answers['same']} pairs show the same place, {answers['unsure']} perhaps"
    )
    emit(result, json, f"{result['pairs']} pairs of {result['photos']} photos, {result['matches']} matches{same}")
    _write_each(out, lambda path: write_matches(features, matches, path, force))
    return 0


def _write_each(out: Sequence[Path], write: Callable[[Path], None]) -> None:
    """Every output; one that fails does not keep the others from being written."""
    failed: list[Exception] = []
    for path in out:
        try:
            write(path)
            say(f"written: {path}")
        except (UserError, OSError) as error:
            failed.append(error)
    for other in failed[1:]:
        say(str(other))
    if failed:
        raise failed[0]


def _names(a: Path, b: Path) -> tuple[Path, Pair]:
    """The folder that holds both files, and their names in it."""
    first, second = (Path(os.path.abspath(path)) for path in (a, b))
    folder = Path(os.path.commonpath([first.parent, second.parent]))
    return folder, (first.relative_to(folder).as_posix(), second.relative_to(folder).as_posix())

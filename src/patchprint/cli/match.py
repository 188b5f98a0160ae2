"""``patchprint match A B``: two photos to inliers; ``patchprint match FEATURES --pairs ... --out M``: many."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, get_args

import tyro

from patchprint.cli.output import emit, say
from patchprint.cli.ray_options import device_there, where_and_how
from patchprint.common import files
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.progress import Progress, json_lines
from patchprint.detectors import MAX_KEYPOINTS
from patchprint.features import load
from patchprint.features.model import DEFAULT_MODEL, LOWE_RATIO
from patchprint.interop.image_files import SUFFIXES, read_gray
from patchprint.interop.ray_cluster import Cluster
from patchprint.matching.image_pair import Geometry, MatchSettings, answer
from patchprint.matching.nearest_neighbors import DEFAULT_MODE, RATIO_MODES, Mode, check_rule
from patchprint.matching.pair_selection import MatchRule, Pair, check_pairs, choose_pairs
from patchprint.networks.engines import AUTO
from patchprint.storage import colmap_output
from patchprint.storage.feature_formats import open_features
from patchprint.storage.match_folder import match_folder
from patchprint.storage.match_formats import check_outputs, names_of_two, write_matches
from patchprint.types import Answer, Features, Matches

LARGE = 50_000_000  # pixels that take a minute or more to search


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
    mode: Mode = DEFAULT_MODE,
    ratio: float | None = None,
    geometry: Geometry = "auto",
    pairs: str = "exhaustive",
    neighbors: int | None = None,
    out: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    device: str = "auto",
    engine: str = AUTO,
    address: str | None = None,
    progress: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Match two photos, or many.

    Args:
        a: first photo; or a folder of features (patchprint describe) or an hloc features.h5
        b: second photo
        model: shipped weights (sdgmnet.fast is the fast one), a baseline, or a weight file
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
            (.png, .jpg), of many also a folder (a name without ending), which is read as one and goes on where it stopped
        device: auto, cpu, cuda or mps
        engine: how a network is computed; float32 is exact; auto: bfloat16 where the CPU has it, cuda on a GPU; ray: many
            photos, on all cores or GPUs of a Ray cluster
        address: HOST:PORT of the cluster, or auto for the one on this machine; default: a Ray of its own on this machine
        progress: file for JSON lines that say how far it is
        force: replace what is there
        json: print the result as JSON, with the coordinates of two photos' matches
    """
    settings = MatchSettings(model, detector, max_keypoints, max_size, upright, spread, exif, mode, ratio, geometry)
    cluster, engine = where_and_how(engine, address)
    _refuse_urls(a, b)
    if b is None:
        _refuse_settings_of_two(a, settings)
        check_rule(mode, ratio)
        place = device_there(device, cluster)
        with json_lines(progress):
            return _match_many(a, settings, place, cluster, pairs, neighbors, out, force, json)
    if cluster is not None:
        raise UserError(
            "a cluster matches many photos: describe a folder, and match its features; leave --engine ray out"
        )
    if pairs != "exhaustive" or neighbors is not None:
        raise UserError("--pairs and --neighbors choose among many photos; leave them out where two are given")
    device = str(choose_device(device))
    return _match_two(a, b, settings, device, engine, out, force, json)


def _refuse_urls(*paths: Path | None) -> None:
    for path in paths:
        if path is not None and path.parts[:1] in (("http:",), ("https:",)):
            raise UserError(
                f"{path.parts[0]}//{'/'.join(path.parts[1:])} is a page of the web; download the photo first"
            )


def _refuse_settings_of_two(a: Path, settings: MatchSettings) -> None:
    """Raise UserError where two photos were meant, or where settings are given that features have behind them."""
    if a.suffix.lower() in SUFFIXES and not a.is_dir():
        raise UserError(f"{a} is one photo, and the second is missing: patchprint match {a} B")
    for name in ("model", "detector", "max_keypoints", "max_size", "upright", "spread", "exif"):
        if getattr(settings, name) != getattr(MatchSettings(), name):
            flag = f"--{'no-' if name == 'spread' else ''}{name.replace('_', '-')}"
            raise UserError(
                f"{flag} is for photos, and the features in {a} are made already; give it to patchprint describe"
            )


def _match_two(
    a: Path, b: Path, settings: MatchSettings, device: str, engine: str, out: Sequence[Path], force: bool, json: bool
) -> int:
    folder, pair = names_of_two(a, b)
    check_outputs(out, force, images=folder, two=True)
    if any(path.suffix.lower() == ".db" for path in out):
        colmap_output.refuse_turned(settings.exif)
        if pair[0] == pair[1]:
            raise UserError(f"{a} is given twice; a COLMAP database holds no matches of a photo with itself")
    settings.check()
    started = time.monotonic()
    used = load(settings.model, device, engine).for_keypoints()
    paths = dict(zip(pair, (a, b), strict=True))
    pixels = {name: read_gray(path, settings.exif) for name, path in paths.items()}  # both, before work begins
    if settings.max_size is None and max(each.size for each in pixels.values()) > LARGE:
        say(f"a photo has more than {LARGE // 10**6} megapixels; --max-size 4000 searches a smaller copy, in less time")
    features = {}
    with Progress("describing", len(paths), "photo") as counter:
        for name in paths:
            features[name] = dataclasses.replace(settings.extract(pixels.pop(name), used), image_path=paths[name])
            counter.update()
    first, second = (features[name] for name in pair)
    _say_ratio(settings, first)
    found = settings.match(first, second, device)
    seconds = round(time.monotonic() - started, 3)
    agreeing = "" if found.model is None else f", {found.num_inliers} of them agree with one {found.geometry}"
    verdict = "" if found.verdict is None else f": {found.verdict}"
    emit(
        answer(first, second, found, seconds),
        json,
        f"{len(first)} and {len(second)} keypoints, {len(found)} matches{agreeing}{verdict} ({used.info.name}, {seconds} s)",
    )
    _write_each(out, lambda path: write_matches(features, {pair: found}, path, force, folder, two=True))
    return 0


def _say_ratio(settings: MatchSettings, features: Features) -> None:
    if features.ratio is None and settings.ratio is None and settings.mode in RATIO_MODES:
        say(f"{features.model.name} has no calibrated ratio, {LOWE_RATIO} is taken; --ratio gives another")


def _match_many(
    path: Path,
    settings: MatchSettings,
    device: str,
    cluster: Cluster | None,
    pairs: str,
    neighbors: int | None,
    out: Sequence[Path],
    force: bool,
    json: bool,
) -> int:
    if not out:
        raise UserError(
            "matching many photos needs --out M.npz, .json, .csv, .h5 or .db, or a folder (two photos: patchprint match A B)"
        )
    features = open_features(path)
    folders, single = ([each for each in out if (each.suffix == "") == is_folder] for is_folder in (True, False))
    if len(folders) > 1:
        raise UserError(f"--out {folders[1]}: matches go to one folder, and {folders[0]} is given already")
    check_outputs(single, force, features)
    check_pairs(list(features), pairs, neighbors)
    geometry = None if settings.geometry == "none" else settings.geometry
    if all(each.suffix.lower() == ".db" for each in out):  # COLMAP verifies matches itself, with its own cameras
        geometry = None
    chosen = choose_pairs(features, pairs, neighbors)
    if chosen:
        _say_ratio(settings, features[chosen[0][0]])
    # Matches are kept in a folder, from which single files are written when it is complete.
    parts = folders[0] if folders else single[0].with_name(f".{single[0].name}.parts")
    rule = MatchRule(settings.mode, settings.ratio, geometry)
    with files.only_writer(parts):
        disposable = not folders
        matches = match_folder(
            features, chosen, parts, rule, device, cluster, force and not disposable, disposable, report=say
        )
        _tell(features, matches, geometry, out, json)
        _write_each(single, lambda each: write_matches(features, matches, each, force))
        if disposable:
            files.remove_folder(parts)
    return 0


def _tell(
    features: Mapping[str, Features],
    matches: Mapping[Pair, Matches],
    geometry: str | None,
    out: Sequence[Path],
    json: bool,
) -> None:
    answers: Counter[str] = Counter()
    number = inliers = 0
    for found in matches.values():
        number += len(found)
        inliers += found.num_inliers or 0
        answers.update([] if found.verdict is None else [found.verdict.answer])
    result = {
        "out": [str(each) for each in out],
        "photos": len(features),
        "pairs": len(matches),
        "matches": number,
        "inliers": None if geometry is None else inliers,
        "verdicts": None if geometry is None else {answer: answers[answer] for answer in get_args(Answer)},
    }
    same = "" if geometry is None else f"; {answers['same']} pairs show the same place, {answers['unsure']} perhaps"
    emit(result, json, f"{result['pairs']} pairs of {result['photos']} photos, {result['matches']} matches{same}")


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

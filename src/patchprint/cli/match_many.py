"""``patchprint match FEATURES --out M``: the pairs of a folder or file of features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import tyro

from patchprint.cli import emit
from patchprint.cli.match import say_ratio, write_each
from patchprint.cli.ray_options import device_there, where_and_how
from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.progress import json_lines
from patchprint.common.types import Answer, Features, Matches
from patchprint.matching.matchers import MatchSettings
from patchprint.matching.pair_selection import MatchRule, Pair, check_pairs, choose_pairs
from patchprint.networks.engines import AUTO
from patchprint.storage.feature_formats import open_features
from patchprint.storage.match_folder import match_folder
from patchprint.storage.match_formats import check_outputs, write_matches


def main(
    features: tyro.conf.Positional[Path],
    /,
    matching: MatchSettings,
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
    """Match the images of a folder or file of features.

    Args:
        features: folder of features (patchprint describe) or an hloc features.h5; for two images give both
        pairs: exhaustive; sequential (each image with those that follow it by name); retrieval (with those that look most like
            it); gps (with those that were taken nearest to it, by EXIF data); or a text file with two names per line
        neighbors: how many images each is paired with; default 15 that follow (sequential), 20 (retrieval, gps)
        out: file of matches: .npz, .json, .csv, .h5 (hloc) or .db (COLMAP), or a folder (a name without ending), which is read
            as one and goes on where it stopped
        device: auto, cpu, cuda or mps
        engine: auto: this machine; ray: all cores or GPUs of a Ray cluster
        address: HOST:PORT of the cluster, or auto for the one on this machine; default: a Ray of its own on this machine
        progress: file for JSON lines that say how far it is
        force: replace what is there
        json: print the result as JSON
    """
    cluster, computed = where_and_how(engine, address)
    if computed != AUTO:
        raise UserError(f"--engine {engine} computes descriptors, and these are there; leave it out, or give ray")
    if not out:
        raise UserError(
            "matching many images needs --out M.npz, .json, .csv, .h5 or .db, or a folder (two images: patchprint match A B)"
        )
    stored = open_features(features)
    folders, single = ([each for each in out if (each.suffix == "") == is_folder] for is_folder in (True, False))
    if len(folders) > 1:
        raise UserError(f"--out {folders[1]}: matches go to one folder, and {folders[0]} is given already")
    check_outputs(single, force, stored)
    check_pairs(list(stored), pairs, neighbors)
    geometry = None if matching.geometry == "none" else matching.geometry
    if all(each.suffix.lower() == ".db" for each in out):  # COLMAP verifies matches itself, with its own cameras
        geometry = None
    chosen = choose_pairs(stored, pairs, neighbors)
    if chosen:
        say_ratio(matching, stored[chosen[0][0]])
    # Matches are kept in a folder, from which single files are written when it is complete.
    parts = folders[0] if folders else single[0].with_name(f".{single[0].name}.parts")
    rule = MatchRule(matching.matcher, matching.ratio, geometry)
    with json_lines(progress), files.exclusive_writer(parts):
        disposable = not folders
        matches = match_folder(
            stored,
            chosen,
            parts,
            rule,
            device=device_there(device, cluster),
            cluster=cluster,
            force=force and not disposable,
            disposable=disposable,
        )
        _tell(stored, matches, geometry, out, json)
        write_each(single, lambda each: write_matches(stored, matches, each, force))
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
    same = (
        "" if geometry is None else f"; {answers['same']} pairs show the same place, {answers['unsure']} cannot be told"
    )
    emit(result, json, f"{result['pairs']} pairs of {result['photos']} images, {result['matches']} matches{same}")

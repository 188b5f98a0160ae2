"""``patchprint match FEATURES --out M``: the pairs of a folder or file of features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import tyro

from patchprint.cli import emit
from patchprint.cli.match import say_ratio, write_each
from patchprint.cli.ray_options import ManyImages, device_there, where_and_how
from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.progress import json_lines
from patchprint.common.types import Answer, Matches
from patchprint.matching.matchers import MatchSettings
from patchprint.matching.pair_selection import MatchRule, Pair, choose_pairs
from patchprint.networks.engines import AUTO
from patchprint.storage.feature_formats import open_features
from patchprint.storage.match_folder import match_folder
from patchprint.storage.match_formats import check_outputs, write_matches


def main(
    features: tyro.conf.Positional[Path],
    matching: MatchSettings,
    work: ManyImages,
    pairs: str = "exhaustive",
    neighbors: int | None = None,
    out: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    device: str = "auto",
    engine: str = AUTO,
) -> int:
    """Match the images of a folder or file of features.

    Args:
        features: folder of features (patchprint describe) or an hloc features.h5; for two images give both
        pairs: exhaustive; sequential (each image with the next by name); retrieval (each with the most similar); gps (each with
            those taken nearest to it, by EXIF data); or a text file with two names per line
        neighbors: number of images that each is paired with; default: 15 (sequential), 20 (retrieval, gps)
        out: file of matches: .npz, .json, .csv, .h5 (hloc) or .db (COLMAP); or a folder (a name without suffix), which is
            resumed where it stopped
        device: auto, cpu, cuda or mps
        engine: auto: this machine; ray: all cores or GPUs of a Ray cluster
    """
    cluster, computed = where_and_how(engine, work.address)
    if computed != AUTO:
        raise UserError(f"--engine {engine} computes descriptors, and these exist already; leave it out, or give ray")
    if not out:
        raise UserError(
            "matching many images needs --out M.npz, .json, .csv, .h5 or .db, or a folder (two images: patchprint match A B)"
        )
    stored = open_features(features)
    folders, single = ([each for each in out if (each.suffix == "") == is_folder] for is_folder in (True, False))
    if len(folders) > 1:
        raise UserError(f"--out {folders[1]}: matches go to one folder, and {folders[0]} is given already")
    check_outputs(single, work.force, stored)
    chosen = choose_pairs(stored, pairs, neighbors)
    geometry = None if matching.geometry == "none" else matching.geometry
    if all(each.suffix.lower() == ".db" for each in out):  # COLMAP verifies matches itself, with its own cameras
        geometry = None
    if chosen:
        say_ratio(matching, stored[chosen[0][0]])
    # Matches are kept in a folder, from which single files are written when it is complete.
    parts = folders[0] if folders else single[0].with_name(f".{single[0].name}.parts")
    with json_lines(work.progress), files.exclusive_writer(parts):
        matches = match_folder(
            stored,
            chosen,
            parts,
            MatchRule(matching.matcher, matching.ratio, geometry),
            device=device_there(device, cluster),
            cluster=cluster,
            force=work.force and bool(folders),
            disposable=not folders,
        )
        counts = _counts(matches, geometry)
        result = {"out": [str(each) for each in out], "images": len(stored), **counts}
        verdicts = counts["verdicts"]
        same = (
            f"; {verdicts['same']} pairs show the same place, {verdicts['unsure']} cannot be told" if verdicts else ""
        )
        emit(result, f"{len(matches)} pairs of {len(stored)} images, {counts['matches']} matches{same}")
        write_each(single, lambda each: write_matches(stored, matches, each, work.force))
        if not folders:
            files.remove_folder(parts)
    return 0


def _counts(matches: Mapping[Pair, Matches], geometry: str | None) -> dict[str, Any]:
    """Return numbers of pairs, matches, inliers and verdicts; the last two are None without ``geometry``."""
    number = inliers = 0
    verdicts = dict.fromkeys(get_args(Answer), 0)
    for found in matches.values():  # each is read from its file
        number += len(found)
        inliers += found.num_inliers or 0
        if found.verdict is not None:
            verdicts[found.verdict.answer] += 1
    verified = geometry is not None
    return {
        "pairs": len(matches),
        "matches": number,
        "inliers": inliers if verified else None,
        "verdicts": verdicts if verified else None,
    }

"""Matches of images as files: ours (.npz, .json, .csv), hloc's (.h5), COLMAP's (.db), and a picture of two images."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.safe_io import parsing, read_npz
from patchprint.features import draw_matches
from patchprint.types import Answer, Features, Keypoints, Matches, Verdict

Pair = tuple[str, str]
COLUMNS = ("image_a", "image_b", "index_a", "index_b", "x_a", "y_a", "x_b", "y_b", "distance", "inlier")
DECIMALS = 4  # of coordinates and distances in text, far below what a detector can tell


@dataclass(frozen=True)
class MatchedImages:
    """Features by the name of the image, and matches of pairs of these names.

    Args:
        images: the folder that the names are relative to; a folder of features knows its own.
        two: these are the matches of two images whose features are in no file of their own.
    """

    features: Mapping[str, Features]
    matches: Mapping[Pair, Matches]
    images: Path | None = None
    two: bool = False

    def keypoints(self) -> dict[str, Keypoints]:
        """Of the images in the pairs; each is read once, and its descriptors are not kept."""
        names = dict.fromkeys(name for pair in self.matches for name in pair)
        return {name: self.features[name].keypoints for name in names}


def write_matches(
    features: Mapping[str, Features],
    matches: Mapping[Pair, Matches],
    out: str | Path,
    force: bool = False,
    images: Path | None = None,
    two: bool = False,
) -> None:
    """Write a file of one of the FORMATS, by the suffix of ``out``; `MatchedImages` says what the arguments are."""
    out = Path(out)
    check_outputs([out], force, features, images, two)
    FORMATS[out.suffix.lower()].write(MatchedImages(features, matches, images, two), out)


def check_outputs(
    outs: Sequence[Path],
    force: bool = False,
    features: Mapping[str, Features] | None = None,
    images: Path | None = None,
    two: bool = False,
) -> None:
    """Raise where `write_matches` would, before there are matches (or, of two images, features)."""
    for number, out in enumerate(outs):
        files.refuse_file(out, force)
        form = FORMATS.get(out.suffix.lower())
        known = {suffix: each for suffix, each in FORMATS.items() if two or not each.of_two}
        if form is None or out.suffix.lower() not in known:
            written = ", ".join(f"{suffix} ({each.summary})" for suffix, each in known.items())
            what = "matches" if form is None else "matches of many photos"
            raise UserError(f"--out {out}: {what} are written as {written}")
        if out.absolute() in [other.absolute() for other in outs[:number]]:
            raise UserError(f"--out {out} is given twice")
        form.check(features or {}, images)


def names_of_two(a: Path, b: Path) -> tuple[Path, Pair]:
    """The folder that holds both files, and their names in it: how files of matches call two images."""
    first, second = (Path(os.path.abspath(path)) for path in (a, b))
    folder = Path(os.path.commonpath([first.parent, second.parent]))
    return folder, (first.relative_to(folder).as_posix(), second.relative_to(folder).as_posix())


def as_json(a: Keypoints, b: Keypoints, found: Matches) -> dict[str, Any]:
    """What is known of two images, as JSON has it; row m of every list is match m."""
    points_a, points_b = (_rounded(points) for points in found.points(a, b))
    return {
        "keypoints_a": len(a),
        "keypoints_b": len(b),
        "matches": len(found),
        "inliers": found.num_inliers,
        "geometry": found.geometry,
        "verdict": None if found.verdict is None else found.verdict.answer,
        "probability": None if found.verdict is None else found.verdict.probability,
        "transform": None if found.model is None else found.model.tolist(),
        "indices": found.indices.tolist(),
        "points_a": points_a.tolist(),
        "points_b": points_b.tolist(),
        "distance": _rounded(found.distance).tolist(),
        "is_inlier": None if found.inliers is None else found.inliers.tolist(),
        **({} if found.score is None else {"score": _rounded(found.score).tolist()}),
    }


def read_matches(path: str | Path) -> dict[Pair, Matches]:
    """Matches from an .npz that `write_matches` wrote."""
    what = "a file of matches by patchprint"
    values = read_npz(path, what)
    with parsing(path, what):
        return {
            (str(first), str(second)): _from_arrays(values, number)
            for number, (first, second) in enumerate(values["names"])
        }


def to_npz(matched: MatchedImages, stream: IO[bytes]) -> None:
    """``names`` (P, 2), and for pair p the arrays of `_to_arrays`, called ``indices_p`` and so on."""
    keypoints = matched.keypoints()
    values: dict[str, Any] = {"names": np.array(list(matched.matches), dtype=str).reshape(-1, 2)}
    for number, ((first, second), found) in enumerate(matched.matches.items()):
        arrays = _to_arrays(keypoints[first], keypoints[second], found)
        values |= {f"{name}_{number}": array for name, array in arrays.items()}
    np.savez(stream, **values)


def _write_npz(matched: MatchedImages, out: Path) -> None:
    with files.atomic_file(out) as temporary, open(temporary, "wb") as stream:
        to_npz(matched, stream)


def _to_arrays(a: Keypoints, b: Keypoints, found: Matches) -> dict[str, np.ndarray]:
    """``indices`` (M, 2), ``points`` (M, 4) as x, y in a and in b, ``distance`` (M,); of verified ones also ``inliers`` (M,),
    ``geometry``, ``verdict`` and ``probability``, and, where one was found, ``model`` (3, 3); ``score`` (M,) where the matcher
    has one."""
    arrays = {
        "indices": found.indices.numpy(),
        "points": torch.cat(found.points(a, b), 1).cpu().numpy(),
        "distance": found.distance.numpy(),
    }
    if found.inliers is not None:
        arrays |= {"inliers": found.inliers.numpy(), "geometry": np.array(found.geometry or "")}
    if found.verdict is not None:
        arrays |= {"verdict": np.array(found.verdict.answer), "probability": np.array(found.verdict.probability)}
    if found.model is not None:
        arrays["model"] = found.model.numpy()
    if found.score is not None:
        arrays["score"] = found.score.numpy()
    return arrays


def _from_arrays(values: Mapping[str, np.ndarray], number: int) -> Matches:
    def tensor(name: str) -> torch.Tensor | None:
        key = f"{name}_{number}"
        return torch.from_numpy(values[key]) if key in values else None

    indices, distance = (torch.from_numpy(values[f"{name}_{number}"]) for name in ("indices", "distance"))
    geometry = str(values[f"geometry_{number}"]) if f"geometry_{number}" in values else ""
    verdict = None
    if f"verdict_{number}" in values:
        answer = cast(Answer, str(values[f"verdict_{number}"]))
        verdict = Verdict(answer, float(values[f"probability_{number}"]))
    return Matches(indices, distance, tensor("inliers"), tensor("model"), geometry or None, verdict, tensor("score"))


def _write_json(matched: MatchedImages, out: Path) -> None:
    """``{"pairs": [...]}``, one pair a line."""
    keypoints = matched.keypoints()
    lines = [
        json.dumps(
            {"image_a": first, "image_b": second, **as_json(keypoints[first], keypoints[second], found)},
            ensure_ascii=False,
        )
        for (first, second), found in matched.matches.items()
    ]
    files.write_text(out, '{"pairs": [\n' + ",\n".join(lines) + "\n]}\n")


def _write_csv(matched: MatchedImages, out: Path) -> None:
    """One match a line; ``inlier`` is 1 or 0, and empty where matches were not verified."""
    keypoints = matched.keypoints()
    with files.atomic_file(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(COLUMNS)
        for (first, second), found in matched.matches.items():
            points = torch.cat(found.points(keypoints[first], keypoints[second]), 1)
            inlier = [""] * len(found) if found.inliers is None else found.inliers.int().tolist()
            rows = zip(
                found.indices.tolist(),
                _rounded(points).tolist(),
                _rounded(found.distance).tolist(),
                inlier,
                strict=True,
            )
            table.writerows([first, second, *indices, *xy, distance, kept] for indices, xy, distance, kept in rows)


def _write_hloc(matched: MatchedImages, out: Path) -> None:
    from patchprint.interop import hloc

    counts = {name: len(points) for name, points in matched.keypoints().items()}
    hloc.write_matches(out, matched.matches, counts, matched.features if matched.two else None)


def _write_colmap(matched: MatchedImages, out: Path) -> None:
    from patchprint.storage import colmap_output

    colmap_output.write_database(out, matched.features, matched.matches, matched.images)


def _write_picture(matched: MatchedImages, out: Path) -> None:
    ((first, second), found), *_ = matched.matches.items()
    draw_matches.draw(matched.features[first], matched.features[second], found, out)


def _rounded(values: torch.Tensor) -> np.ndarray:
    return np.round(values.cpu().double().numpy(), DECIMALS)


def _needs_nothing(features: Mapping[str, Features], images: Path | None) -> None:
    pass


def _needs_colmap(features: Mapping[str, Features], images: Path | None) -> None:
    from patchprint.storage import colmap_output

    colmap_output.check_images(features, images)


def _needs_h5py(features: Mapping[str, Features], images: Path | None) -> None:
    require("h5py", extra="sfm")


@dataclass(frozen=True)
class MatchFormat:
    """A kind of file: what it is, what writes it, what raises where that cannot be, and whether it shows two images only."""

    summary: str
    write: Callable[[MatchedImages, Path], None]
    check: Callable[[Mapping[str, Features], Path | None], object] = _needs_nothing
    of_two: bool = False


FORMATS = {
    ".npz": MatchFormat("NumPy", _write_npz),
    ".json": MatchFormat("JSON", _write_json),
    ".csv": MatchFormat("a table", _write_csv),
    ".h5": MatchFormat("hloc", _write_hloc, _needs_h5py),
    ".db": MatchFormat("COLMAP", _write_colmap, _needs_colmap),
    **{suffix: MatchFormat("a picture", _write_picture, of_two=True) for suffix in draw_matches.SUFFIXES},
}

"""File formats of matches: .npz, .json, .csv, hloc (.h5), COLMAP (.db), and a drawing of two images."""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.errors import UserError, parsing, require
from patchprint.common.safe_io import read_npz
from patchprint.common.types import Answer, Features, Keypoints, Matches, Verdict
from patchprint.features import draw_matches

Pair = tuple[str, str]
COLUMNS = ("image_a", "image_b", "index_a", "index_b", "x_a", "y_a", "x_b", "y_b", "distance", "inlier")
_ARRAYS = ("indices", "distance", "inliers", "geometry", "verdict", "probability", "model", "score", "refined")
DECIMALS = 4  # of coordinates and distances in text, far below the precision of a detector


@dataclass(frozen=True)
class MatchedImages:
    """What is written to one file.

    Attributes:
        features: by image name.
        matches: by pair of image names.
        images: folder that the names are relative to; a folder of features knows its own.
        two: matches of two images whose features have no file of their own.
    """

    features: Mapping[str, Features]
    matches: Mapping[Pair, Matches]
    images: Path | None = None
    two: bool = False

    def keypoints(self) -> dict[str, Keypoints]:
        """Keypoints of the images in the pairs, by name; each image is read once, and its descriptors are not kept."""
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
    """Write matches in the format of the suffix of ``out``, one of `FORMATS`; the other arguments are `MatchedImages`."""
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
    """Raise where `write_matches` would, before images are matched."""
    known = {suffix: form for suffix, form in FORMATS.items() if two or not form.of_two}
    for number, out in enumerate(outs):
        files.check_output_file(out, force)
        suffix = out.suffix.lower()
        if suffix not in known:
            written = ", ".join(f"{suffix} ({form.summary})" for suffix, form in known.items())
            what = "matches of many images" if suffix in FORMATS else "matches"
            raise UserError(f"--out {out}: {what} are written as {written}")
        if out.absolute() in [other.absolute() for other in outs[:number]]:
            raise UserError(f"--out {out} is given twice")
        known[suffix].check(features or {}, images)


def relative_names(a: Path, b: Path) -> tuple[Path, Pair]:
    """The closest folder above both files, and their names relative to it, which files of matches use."""
    first, second = (Path(os.path.abspath(path)) for path in (a, b))
    folder = Path(os.path.commonpath([first.parent, second.parent]))
    return folder, (first.relative_to(folder).as_posix(), second.relative_to(folder).as_posix())


def as_json(a: Keypoints, b: Keypoints, found: Matches) -> dict[str, Any]:
    """Matches of two images as a JSON object; row m of every list is match m."""
    points_a, points_b = map(_rounded, found.points(a, b))
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
        "points_a": points_a,
        "points_b": points_b,
        "distance": _rounded(found.distance),
        "is_inlier": None if found.inliers is None else found.inliers.tolist(),
        **({} if found.score is None else {"score": _rounded(found.score)}),
    }


def read_matches(path: str | Path) -> dict[Pair, Matches]:
    """Read matches from an ``.npz`` that `write_matches` wrote."""
    what = "a file of matches by patchprint"
    values = read_npz(path, what)
    with parsing(path, what):
        return {
            (str(first), str(second)): _from_arrays(values, number)
            for number, (first, second) in enumerate(values["names"])
        }


def matches_to_npz(features: Mapping[str, Features], matches: Mapping[Pair, Matches], stream: IO[bytes]) -> None:
    """Write ``names`` (P, 2), and for pair p the arrays of `_to_arrays`, called ``indices_p`` and so on."""
    keypoints = MatchedImages(features, matches).keypoints()
    values: dict[str, Any] = {"names": np.array(list(matches), dtype=str).reshape(-1, 2)}
    for number, ((first, second), found) in enumerate(matches.items()):
        arrays = _to_arrays(keypoints[first], keypoints[second], found)
        values |= {f"{name}_{number}": array for name, array in arrays.items()}
    np.savez(stream, **values)


def _to_arrays(a: Keypoints, b: Keypoints, found: Matches) -> dict[str, np.ndarray]:
    """Arrays of the matches of one pair.

    Shape:
        ``indices`` (M, 2), ``points`` (M, 4) as x, y in a and in b, ``distance`` (M,); of verified matches also ``inliers``
        (M,), ``geometry``, ``verdict`` and ``probability``, and, where one was found, ``model`` (3, 3).
    """
    verdict, is_verified = found.verdict, found.inliers is not None
    arrays = {
        "indices": found.indices,
        "points": torch.cat(found.points(a, b), 1).cpu(),
        "distance": found.distance,
        "inliers": found.inliers,
        "geometry": found.geometry or "" if is_verified else None,
        "verdict": None if verdict is None else verdict.answer,
        "probability": None if verdict is None else verdict.probability,
        "model": found.model,
        "score": found.score,
        "refined": found.refined,
    }
    return {name: np.asarray(value) for name, value in arrays.items() if value is not None}


def _from_arrays(values: Mapping[str, np.ndarray], number: int) -> Matches:
    own = {name: values[f"{name}_{number}"] for name in _ARRAYS if f"{name}_{number}" in values}
    verdict, geometry = None, str(own.get("geometry", ""))
    if "verdict" in own:
        # Folders of earlier versions say "different" where nothing was found.
        answer: Answer = "same" if str(own["verdict"]) == "same" else "unsure"
        verdict = Verdict(answer, float(own["probability"]))
    inliers, model, score, refined = (
        torch.from_numpy(own[name]) if name in own else None for name in ("inliers", "model", "score", "refined")
    )
    indices, distance = torch.from_numpy(own["indices"]), torch.from_numpy(own["distance"])
    return Matches(indices, distance, inliers, model, geometry or None, verdict, score, refined)


def _write_npz(matched: MatchedImages, out: Path) -> None:
    with files.atomic_file(out) as temporary, open(temporary, "wb") as stream:
        matches_to_npz(matched.features, matched.matches, stream)


def _write_json(matched: MatchedImages, out: Path) -> None:
    """``{"pairs": [...]}``, one pair per line."""
    keypoints = matched.keypoints()
    lines = [
        json.dumps(
            {"image_a": first, "image_b": second, **as_json(keypoints[first], keypoints[second], found)},
            ensure_ascii=False,
        )
        for (first, second), found in matched.matches.items()
    ]
    files.write_text(out, '{"pairs": [\n' + ",\n".join(lines) + "\n]}\n")


def to_csv(matched: MatchedImages, stream: IO[str]) -> None:
    """One match a line; ``inlier`` is 1 or 0, and empty where matches were not verified."""
    keypoints = matched.keypoints()
    table = csv.writer(stream)
    table.writerow(COLUMNS)
    for (first, second), found in matched.matches.items():
        points = torch.cat(found.points(keypoints[first], keypoints[second]), 1)
        inlier = [""] * len(found) if found.inliers is None else found.inliers.int().tolist()
        rows = zip(found.indices.tolist(), _rounded(points), _rounded(found.distance), inlier, strict=True)
        table.writerows([first, second, *indices, *xy, distance, kept] for indices, xy, distance, kept in rows)


def _write_csv(matched: MatchedImages, out: Path) -> None:
    with files.atomic_file(out) as temporary, open(temporary, "w", newline="", encoding="utf-8") as stream:
        to_csv(matched, stream)


def _write_hloc(matched: MatchedImages, out: Path) -> None:
    from patchprint.interop import hloc

    counts = {name: len(points) for name, points in matched.keypoints().items()}
    hloc.write_matches(out, matched.matches, counts, matched.features if matched.two else None)


def _write_colmap(matched: MatchedImages, out: Path) -> None:
    from patchprint.storage import colmap_output

    colmap_output.write_database(out, matched.features, matched.matches, matched.images)


def _write_drawing(matched: MatchedImages, out: Path) -> None:
    ((first, second), found), *_ = matched.matches.items()
    draw_matches.draw(matched.features[first], matched.features[second], found, out)


def _rounded(values: torch.Tensor) -> list[Any]:
    return np.round(values.cpu().double().numpy(), DECIMALS).tolist()


def _check_colmap(features: Mapping[str, Features], images: Path | None) -> None:
    from patchprint.storage import colmap_output

    colmap_output.check_images(features, images)


@dataclass(frozen=True)
class MatchFormat:
    """A file format of matches: its name in messages, what writes it, and what raises where it cannot be written."""

    summary: str
    write: Callable[[MatchedImages, Path], None]
    check: Callable[[Mapping[str, Features], Path | None], object] = lambda features, images: None
    of_two: bool = False  # only for matches of two images


FORMATS = {
    ".npz": MatchFormat("NumPy", _write_npz),
    ".json": MatchFormat("JSON", _write_json),
    ".csv": MatchFormat("a table", _write_csv),
    ".h5": MatchFormat("hloc", _write_hloc, lambda features, images: require("h5py", extra="sfm")),
    ".db": MatchFormat("COLMAP", _write_colmap, _check_colmap),
    **{suffix: MatchFormat("a drawing", _write_drawing, of_two=True) for suffix in draw_matches.SUFFIXES},
}

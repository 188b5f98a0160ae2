"""``patchprint match A B``: two images to inliers; `match_many` is the other half, for a folder of features."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import tyro

from patchprint.cli import emit, say
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.types import Features
from patchprint.features.extract import DescribeSettings, describe_found, find_keypoints
from patchprint.features.model import LOWE_RATIO, load
from patchprint.interop.images import SUFFIXES, find_mask, read_gray
from patchprint.matching.matchers import MatchSettings, match_and_verify, matchers_with_ratio
from patchprint.storage.match_formats import as_json, check_outputs, relative_names, write_matches

LARGE = 50_000_000  # pixels that take a minute or more to search
_OF_TWO = (
    "--model",
    "--detector",
    "--max-keypoints",
    "--max-size",
    "--masks",
    "--upright",
    "--no-spread",
    "--exif",
    "--refine",
)
_OF_MANY = ("--pairs", "--neighbors", "--address", "--progress")
_SWITCHES = ("--upright", "--no-spread", "--exif", "--refine", "--force", "--json", "-h", "--help")


def select(arguments: Sequence[str]) -> Callable[..., int]:
    """Return the command for these words: `main` for two images, `match_many.main` for a folder or file of features."""
    places = _positional(arguments)
    for place in places:
        if place.startswith(("http://", "https://")):
            raise UserError(f"{place} is a web page; download the image first")
    if len(places) != 1:
        _refuse_flags(arguments, _OF_MANY, "is for many images; leave it out where two are given")
        return main
    if Path(places[0]).suffix.lower() in SUFFIXES and not Path(places[0]).is_dir():
        raise UserError(f"the second image is missing: patchprint match {places[0]} B.jpg")
    _refuse_flags(arguments, _OF_TWO, f"is for images; {places[0]} holds features, so give it to patchprint describe")
    from patchprint.cli import match_many

    return match_many.main


def main(
    a: tyro.conf.Positional[Path],
    b: tyro.conf.Positional[Path],
    describe: DescribeSettings,
    matching: MatchSettings,
    masks: Path | None = None,
    out: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    force: bool = False,
) -> int:
    """Match two images; patchprint match FEATURES --help is for many.

    Args:
        a: first image; for many images instead a folder of features (patchprint describe) or an hloc features.h5
        b: second image
        masks: folder of masks, NAME.png for the image NAME (a.jpg: a.jpg.png or a.png); no keypoints where a mask is black
        out: file of matches: .npz, .json, .csv, .h5 (hloc) or .db (COLMAP), or a drawing of the
            inliers (.png, .jpg)
        force: replace what is there
    """
    if describe.engine.partition(":")[0] == "ray":
        raise UserError(
            "a cluster matches many images: describe a folder, and match its features; leave --engine ray out"
        )
    folder, pair = relative_names(a, b)
    check_outputs(out, force, images=folder, two=True)
    if any(path.suffix.lower() == ".db" for path in out):
        from patchprint.storage import colmap_output

        colmap_output.refuse_exif_rotation(describe.exif)
        if pair[0] == pair[1]:
            raise UserError(f"{a} is given twice; a COLMAP database holds no matches of an image with itself")
    started = time.monotonic()
    device = str(choose_device(describe.device))
    model = load(describe.model, device, engine=describe.engine)
    images = [read_gray(path, describe.exif) for path in (a, b)]  # both, before the work begins
    if describe.max_size is None and max(image.size for image in images) > LARGE:
        say(
            f"an image has more than {LARGE // 10**6} megapixels; --max-size 4000 searches a smaller copy, in less time"
        )
    masked = [None if masks is None else find_mask(masks, path.name) for path in (a, b)]
    if masks is not None and not any(masked):
        raise UserError(f"{masks} holds no mask of {a.name} or {b.name}; expected for example {a.name}.png")
    there = model.device
    pixels = tuple(images) if matching.refine else None
    first = describe_found(
        replace(find_keypoints(images.pop(0), describe, mask=masked[0], device=there), path=a), model
    )
    second = describe_found(
        replace(find_keypoints(images.pop(0), describe, mask=masked[1], device=there), path=b), model
    )
    say_ratio(matching, first)
    matches = match_and_verify(first, second, matching, images=pixels, device=device)
    seconds = round(time.monotonic() - started, 3)
    inliers = (
        "" if matches.model is None else f", {matches.num_inliers} of them agree with one geometry ({matches.geometry})"
    )
    tried = f"--matcher {matching.matcher}", f"--detector {describe.detector}"
    verdict = "" if matches.verdict is None else f": {matches.verdict.sentence(*tried)}"
    emit(
        {"model": model.info.name, **as_json(first.keypoints, second.keypoints, matches), "seconds": seconds},
        f"{len(first)} and {len(second)} keypoints, {len(matches)} matches{inliers}{verdict} ({model.info.name}, {seconds} s)",
    )
    named = dict(zip(pair, (first, second), strict=True))
    write_each(out, lambda path: write_matches(named, {pair: matches}, path, force, folder, two=True))
    return 0


def say_ratio(settings: MatchSettings, features: Features) -> None:
    """Print a note if Lowe's ratio is used, since neither user nor model give another."""
    if features.ratio is None and settings.ratio is None and settings.matcher in matchers_with_ratio():
        say(f"{features.model.name} has no calibrated ratio, {LOWE_RATIO} is taken; --ratio gives another")


def write_each(out: Sequence[Path], write: Callable[[Path], None]) -> None:
    """Write every output; one that fails does not keep the others from being written."""
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


def _refuse_flags(arguments: Sequence[str], flags: Sequence[str], why: str) -> None:
    for word in arguments:
        if word.partition("=")[0] in flags:
            raise UserError(f"{word.partition('=')[0]} {why}")


def _positional(arguments: Sequence[str]) -> list[str]:
    """Return the words that are neither flags nor their values."""
    found, is_value = [], False
    for word in arguments:
        if word.startswith("-") and not is_value:
            is_value = "=" not in word and word not in _SWITCHES
        else:
            found += [] if is_value else [word]
            is_value = False
    return found

"""``patchprint bench``: how fast patchprint and others are on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from patchprint.cli.output import emit, say, table
from patchprint.common.errors import UserError
from patchprint.common.files import refuse_file, write_json
from patchprint.common.provenance import Result
from patchprint.speed import COUNTS, STAGES, bench, draw, growth, growth_table, read_photos, stage_table

PICTURES = (".svg", ".png", ".pdf")


def main(
    data: Path | None = None,
    photos: int = 2,
    megapixels: float = 1.0,
    keypoints: int = 2000,
    stages: Annotated[tuple[str, ...], tyro.conf.arg(metavar="{" + ",".join(STAGES) + "} ...")] = (),
    models: tuple[str, ...] = (),
    engines: tuple[str, ...] = (),
    rounds: int = 5,
    busy: int = 0,
    growth_: Annotated[bool, tyro.conf.arg(name="growth")] = False,
    counts: tuple[int, ...] = COUNTS,
    device: str = "auto",
    out: tuple[Path, ...] = (),
    force: bool = False,
    json: bool = False,
) -> int:
    """Time patchprint, kornia, OpenCV and COLMAP on this machine, in turns, on the same photos.

    Args:
        data: folder of photos; default: the stereo pair that scikit-image ships
        photos: how many of the folder are used
        megapixels: size that they are brought to
        keypoints: in each photo
        stages: which to time; default: all
        models: shipped weights or weight files; default: all that are shipped
        engines: of our models; default: all that the machine has where patches are described, else those that users get
        rounds: how often each contender has its turn
        busy: cores that other processes keep busy meanwhile
        growth_: instead of stages: time and memory of each model by the number of keypoints
        counts: those numbers
        device: auto, cpu, cuda or mps
        out: files to write: the result (.json), pictures of it (.svg, .png, .pdf)
        force: replace files that exist
        json: print the result as JSON
    """
    for path in out:
        if path.suffix not in (".json", *PICTURES):
            raise UserError(
                f"--out {path} ends in none of .json {' '.join(PICTURES)}, so it is not clear what to write"
            )
        refuse_file(path, force)
    read = read_photos(data, photos, megapixels, keypoints)
    if growth_:
        result = growth(read, models, counts, device=device)
        text = _growth_text(result)
    else:
        result = bench(read, stages, models, engines, rounds, busy, device)
        text = _stages_text(result)
    for path in out:
        if path.suffix == ".json":
            write_json(path, result.to_json())
        else:
            draw(result, path)
        say(f"wrote {path}")
    emit(result.to_json(), json, text)
    return 0


def _stages_text(result: Result) -> str:
    left_out = result.scores["left_out"]
    parts = [
        f"{name}: {stage['title']}\n{table(*stage_table(stage))}"
        for name, stage in result.scores.items()
        if name != "left_out"
    ]
    parts += ["\n".join(f"left out: {name}: {why}" for name, why in left_out.items())] if left_out else []
    return "\n\n".join(parts)


def _growth_text(result: Result) -> str:
    lines = [
        f"{model}: time grows as keypoints to the power of {score['power_of_time']:.2f}"
        for model, score in result.scores.items()
    ]
    return "\n".join([table(*growth_table(result.scores)), "", *lines])

"""``patchprint bench``: time our models and engines on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from patchprint.cli import emit, say
from patchprint.common.errors import UserError
from patchprint.common.files import check_output_file, write_json
from patchprint.pipelines.bench import ROUNDS, STAGES, bench, read_images, stage_table


def main(
    data: Path | None = None,
    images: int = 2,
    megapixels: float = 1.0,
    max_keypoints: int = 2000,
    stages: Annotated[tuple[str, ...], tyro.conf.arg(metavar="{" + ",".join(STAGES) + "} ...")] = (),
    models: tuple[str, ...] = (),
    engines: tuple[str, ...] = (),
    rounds: int = ROUNDS,
    device: str = "auto",
    out: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> int:
    """Time models and engines on this machine, in turns, on the same images.

    Args:
        data: folder of images; default: the stereo pair that scikit-image ships
        images: how many of the folder to use
        megapixels: size that the images are resized to
        max_keypoints: of each image
        stages: which to time; default: all
        models: shipped weights or weight files; default: all that are shipped
        engines: default: all of this machine in the stage describe, auto and int8 in the others
        rounds: measurements of each contender
        device: auto, cpu, cuda or mps
        out: file for the result (.json)
        force: replace a file that exists
        json: print the result as JSON
    """
    if out is not None:
        if out.suffix != ".json":
            raise UserError(f"--out {out} does not end in .json")
        check_output_file(out, force)
    read = read_images(data, images, megapixels, max_keypoints)
    result = bench(read, stages=stages, models=models, engines=engines, rounds=rounds, device=device)
    if out is not None:
        write_json(out, result.to_json())
        say(f"wrote {out}")
    tables = [f"{name}: {stage['title']}\n{stage_table(stage).to_text()}" for name, stage in result.scores.items()]
    emit(result.to_json(), json, "\n\n".join(tables))
    return 0

"""``patchprint sfm IMAGES --out OUT``: images to a COLMAP model in one command."""

from dataclasses import replace
from pathlib import Path

import tyro

from patchprint.cli import emit, say
from patchprint.cli.ray_options import ManyImages, where_and_how
from patchprint.common.progress import json_lines
from patchprint.pipelines.sfm_folder import MODEL
from patchprint.pipelines.structure_from_motion import SfmSettings, sfm
from patchprint.report.scenes import models_table


def main(
    images: tyro.conf.Positional[Path],
    out: Path,
    settings: SfmSettings,
    work: ManyImages,
    into: Path | None = None,
    masks: Path | None = None,
) -> int:
    """Reconstruct a COLMAP model from images, or add images to a model.

    Args:
        images: folder of overlapping images of one scene
        out: folder for features/, model/ (database.db and sparse/), report.html (the scene to turn), model.png, points.ply
            and summary.json; resumes where it stopped
        into: output folder of an earlier run: its model with those of the images that are new to it goes to OUT. It stays as it
            is, its cameras keep their places, and images are described as it was made
        masks: folder of masks, NAME.png for the image NAME (a.jpg: a.jpg.png or a.png); no keypoints where a mask is black
    """
    cluster, engine = where_and_how(settings.describe.engine, work.address)
    settings = replace(settings, describe=replace(settings.describe, engine=engine))
    with json_lines(work.progress):
        made = sfm(images, out, settings, into=into, masks=masks, cluster=cluster, force=work.force, report=say)
    models = models_table(made.summary["scores"])
    emit(made.summary, models.to_text())
    say(f"model: {out / MODEL / 'sparse'}   points: {out / 'points.ply'}   report: {out / 'report.html'}")
    return 0

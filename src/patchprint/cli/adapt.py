"""``patchprint adapt``: tune a descriptor or its matcher to a folder of images."""

from pathlib import Path

import tyro

from patchprint.cli import emit, say
from patchprint.common import files
from patchprint.common.table import Table
from patchprint.pipelines.adapt_judge import conclusion
from patchprint.pipelines.adapt_page import page
from patchprint.pipelines.adaptation import AdaptSettings, adapt
from patchprint.report.page import write


def main(
    images: tyro.conf.Positional[Path],
    settings: AdaptSettings,
    out: Path,
    work: Path | None = None,
    force: bool = False,
) -> None:
    """Tune a descriptor or its matcher to your images; tuned weights are written if they gain on held-out images.

    Args:
        images: folder of overlapping images, or of a COLMAP model (images/ and sparse/).
        out: weights to write (.safetensors); a report (.html) and the numbers (.json) go beside them, and with --tune both
            the matcher as OUT-matcher.safetensors.
        work: folder for reconstruction and training; a run that was stopped goes on from there. Default: OUT.work
        force: replace OUT if it exists.
    """
    work = work or out.with_suffix(".work")
    result = adapt(images, out=out, work=work, settings=settings, force=force, report=say)
    files.write_json(out.with_suffix(".json"), result.to_json())
    write(page(result, out, work), out.with_suffix(".html"))
    rows = [(name, f"{score['inliers']:.1f}") for name, score in result.scores.items()]
    text = f"{Table(['', 'verified matches a pair'], rows).to_text()}\n\n{conclusion(result.model)}"
    emit(result.to_json(), text)
    say(f"weights: {out}   report: {out.with_suffix('.html')}")

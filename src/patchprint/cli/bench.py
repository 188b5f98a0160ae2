"""``patchprint bench``: time our models and engines on this machine."""

from pathlib import Path

from patchprint.cli import emit, say
from patchprint.common.files import check_output_file, write_json
from patchprint.pipelines.bench import BenchSettings, bench, stage_table


def main(settings: BenchSettings, out: Path | None = None, force: bool = False) -> int:
    """Time models and engines on this machine, in turns, on the same images.

    Args:
        out: file for the result (.json)
        force: replace a file that exists
    """
    if out is not None:
        check_output_file(out, force)
    result = bench(settings)
    if out is not None:
        write_json(out, result.to_json())
        say(f"wrote {out}")
    tables = [f"{name}: {stage['title']}\n{stage_table(stage).to_text()}" for name, stage in result.scores.items()]
    emit(result.to_json(), "\n\n".join(tables))
    return 0

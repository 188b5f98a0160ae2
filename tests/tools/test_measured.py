"""The numbers of ``patchprint models`` are those of the result files, and of the weights that are shipped now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from patchprint.cli.models import MEASURED
from support.checkout import ROOT
from tools.measured import collect


def test_the_file_in_the_package_is_up_to_date() -> None:
    assert json.loads(MEASURED.read_text()) == collect(ROOT / "results"), "python -m tools.measured writes it"


def test_results_of_other_weights_do_not_count(tmp_path: Path) -> None:
    for folder in ("oxford", "speed"):
        shutil.copytree(ROOT / "results" / folder, tmp_path / folder)
    for path, place in (
        (tmp_path / "oxford" / "hynet.json", ("model",)),
        (tmp_path / "speed" / "bench-cpu.json", ("scores", "describe", "contenders", "patchprint hynet")),
    ):
        result = json.loads(path.read_text())
        entry = result
        for name in place:
            entry = entry[name]
        entry["sha256"] = "another"
        path.write_text(json.dumps(result))
    hynet = collect(tmp_path)["models"].get("hynet", {})
    assert "oxford_map" not in hynet and "cpu" not in hynet.get("patches_per_second", {})

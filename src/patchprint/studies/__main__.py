"""``python -m patchprint.studies NAME --data SET=PATH --out OUT``: studies on machines that do not have tyro."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from patchprint.common.errors import UserError
from patchprint.networks.engines import EXACT
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._plan import read_changes, read_sets


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m patchprint.studies", description="Run a study.")
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(STUDIES)}")
    parser.add_argument("--data", nargs="+", action="extend", default=[], metavar="SET=PATH", help="a set of the study")
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--budget", type=float, default=1.0, help="factor of the steps of every run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[], help="in place of those of the study")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help="of all runs")
    parser.add_argument("--only", default="*", help="pattern of the names of runs to do")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="auto", help="cpu, cuda, mps or auto")
    parser.add_argument("--engine", default=EXACT, help="how networks are computed where they are measured")
    parser.add_argument("--keep", action="store_true", help="leave the weights of the runs in their folders")
    parser.add_argument(
        "--reuse", type=Path, nargs="+", default=[], help="folders of other studies with runs in common"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = parser.parse_args()
    try:
        options = Options(
            data=read_sets(given.data),
            out=given.out,
            budget=given.budget,
            seeds=tuple(given.seeds),
            changes=read_changes(given.set),
            only=given.only,
            workers=given.workers,
            device=given.device,
            engine=given.engine,
            keep=given.keep,
            reuse=tuple(given.reuse),
        )
        report = run_study(given.name, STUDIES[given.name], options)
    except (UserError, OSError) as error:
        print(f"patchprint: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    print(json.dumps(report.result, indent=2, ensure_ascii=False) if given.json else report.table)
    return 1 if report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

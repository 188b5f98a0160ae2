"""``python -m patchprint.studies NAME --data SET=PATH --out OUT``: studies on machines that do not have tyro."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from patchprint.common.errors import UserError
from patchprint.studies import STUDIES, Options, run_study
from patchprint.studies._plan import read_changes, read_sets


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m patchprint.studies", description="Run a study.")
    parser.add_argument("name", metavar="NAME", help=f"one of {', '.join(STUDIES)}")
    parser.add_argument("--data", nargs="+", action="extend", default=[], metavar="SET=PATH", help="set of the study")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help="of all runs")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of those of the study")
    parser.add_argument("--reuse", type=Path, nargs="+", help="folders or JSON files of other studies")
    for name, kind in {"budget": float, "only": str, "workers": int, "device": str, "engine": str}.items():
        parser.add_argument(f"--{name}", type=kind, help="as in patchprint study")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the training runs")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    name, as_json, data, changes = (given.pop(each) for each in ("name", "json", "data", "set"))
    given |= {each: tuple(given[each]) for each in ("seeds", "reuse") if each in given}
    try:
        report = run_study(name, STUDIES[name], Options(data=read_sets(data), changes=read_changes(changes), **given))
    except (UserError, OSError) as error:
        print(f"patchprint: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    print(json.dumps(report.result, indent=2, ensure_ascii=False) if as_json else report.table)
    return 1 if report.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m patchprint.training run.json [--resume]``: training with the core packages alone.

run.json names ``recipe``, ``data`` (folders), ``out`` and any setting of TrainConfig; the outcome goes to stdout as JSON.
"""

import argparse
import json
import sys
from pathlib import Path

from patchprint.common import distributed as ranks
from patchprint.common.errors import UserError
from patchprint.training.loop import train
from patchprint.training.recipes import RunFile, resolve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m patchprint.training", description="Train by a JSON file.")
    parser.add_argument("config", type=Path, help="JSON with recipe, data, out and any setting of a run")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in out")
    arguments = parser.parse_args()
    try:
        file = RunFile.read(arguments.config)
        if file.recipe is None or file.out is None or "data" not in file.settings:
            missing = "recipe" if file.recipe is None else "out" if file.out is None else "data"
            raise UserError(f"{arguments.config} lacks {missing!r}")
        outcome = train(resolve(file.recipe, file), out=file.out, resume=arguments.resume)
        if ranks.rank() == 0:
            print(json.dumps(outcome.to_json(), indent=2))
    except (UserError, OSError) as error:
        print(f"patchprint: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    finally:
        ranks.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

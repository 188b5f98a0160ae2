"""``python -m patchprint.training run.json [--resume]``: training with the core packages alone.

run.json names ``recipe``, ``data`` (folders), ``out`` and any setting of TrainConfig; the outcome goes to stdout as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from patchprint.errors import UserError
from patchprint.training import distributed
from patchprint.training.config import read_config
from patchprint.training.loop import train
from patchprint.training.recipes import resolve


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m patchprint.training", description="Train by a JSON file.")
    parser.add_argument("config", type=Path, help="JSON with recipe, data, out and any setting of a run")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in out")
    arguments = parser.parse_args()
    try:
        settings = read_config(arguments.config)
        for name in ("recipe", "data", "out"):
            if name not in settings:
                raise UserError(f"{arguments.config} lacks {name!r}")
        recipe, out = settings.pop("recipe"), settings.pop("out")
        outcome = train(resolve(recipe, **settings), None, out, resume=arguments.resume)
        if distributed.rank() == 0:
            print(json.dumps(outcome.to_json(), indent=2))
    except (UserError, OSError) as error:
        print(f"patchprint: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    finally:
        distributed.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

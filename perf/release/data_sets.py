"""Count the contents of the built stores.

    python -m perf.release.data_sets data/notredame data/liberty data/castle ... --out results/experiments/data-sets.json

``--models DIR`` names the folder with the scenes that the stores were made from; then the points of the COLMAP model beside
each are counted too, which is how stores of bare images are compared with them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from patchprint.cli.data import describe
from patchprint.common import files, provenance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="+", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    started = time.monotonic()
    scores = {}
    for folder in options.stores:
        scores[folder.name] = describe(folder)
        scores[folder.name].pop("pairs")
        if options.models is not None:
            from patchprint.interop.colmap_models import read_model

            scene = next(place for place in sorted(options.models.rglob(folder.name)) if (place / "sparse").is_dir())
            points = read_model(scene).num_points3D()
            scores[folder.name]["points_of_model"] = points
            scores[folder.name]["points_ratio"] = round(scores[folder.name]["points"] / points, 4)
        print(folder.name, scores[folder.name], flush=True)
    data = {"path": [str(folder) for folder in options.stores]}
    result = provenance.record("data-sets", settings={}, scores=scores, data=data, started=started)
    files.write_json(options.out, result.to_json())


if __name__ == "__main__":
    main()

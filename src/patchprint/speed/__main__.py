"""``python -m patchprint.speed PHOTOS.npz OUT.json``: ``patchprint bench`` with torch, numpy, safetensors and tqdm alone.

For a GPU machine as it is. The photos come from `Photos.save` on a machine that has OpenCV; whoever is not installed is left
out.
"""

from __future__ import annotations

import argparse

from patchprint.common.files import write_json
from patchprint.speed import COUNTS, STAGES, Photos, bench, growth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("out")
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=())
    parser.add_argument("--models", nargs="+", default=())
    parser.add_argument("--engines", nargs="+", default=())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    photos = Photos.open(given.photos)
    if given.growth:
        result = growth(photos, given.models, given.counts, device=given.device)
    else:
        result = bench(photos, given.stages, given.models, given.engines, given.rounds, given.busy, given.device)
    write_json(given.out, result.to_json())


if __name__ == "__main__":
    main()

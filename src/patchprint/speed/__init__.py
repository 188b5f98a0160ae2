"""How fast patchprint and others are on this machine, on real photos: ``patchprint bench``.

Each stage of the work (``STAGES``) is done by several contenders in turns; a contender that is not installed is named and left
out. Nothing here says what is good, only what is fast: ``patchprint eval`` measures quality.
"""

from patchprint.speed._bench import bench
from patchprint.speed._drawing import draw
from patchprint.speed._growth import COUNTS, growth
from patchprint.speed._photos import Photos, read_photos
from patchprint.speed._stages import STAGES
from patchprint.speed._tables import growth_table, stage_table
from patchprint.speed._training import plain_step

__all__ = [
    "COUNTS",
    "STAGES",
    "Photos",
    "bench",
    "draw",
    "growth",
    "growth_table",
    "plain_step",
    "read_photos",
    "stage_table",
]

"""A contest of speed: patchprint beside kornia, OpenCV, COLMAP and FAISS on this machine."""

from perf.speed.contest._growth import growth
from perf.speed.contest._images import open_images, save_images
from perf.speed.contest._stages import STAGES, Contest, contest_table
from perf.speed.contest._training import plain_step

__all__ = ["STAGES", "Contest", "contest_table", "growth", "open_images", "plain_step", "save_images"]

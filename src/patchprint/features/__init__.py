"""Use a descriptor: detect, describe, match, verify, draw, compress, store."""

from patchprint.features.drawing import draw
from patchprint.features.extract import extract
from patchprint.features.geometry import verify
from patchprint.features.matching import match

__all__ = ["draw", "extract", "match", "verify"]

"""Match the descriptors of two images and verify the matches geometrically."""

from patchprint.matching.nearest_neighbors import match
from patchprint.matching.two_view_geometry import verify

__all__ = ["match", "verify"]

"""Match the descriptors of two images and verify the matches geometrically."""

from patchprint.matching.matchers import MATCHERS, MatchSettings, match, match_and_verify
from patchprint.matching.two_view_geometry import verify

__all__ = ["MATCHERS", "MatchSettings", "match", "match_and_verify", "verify"]

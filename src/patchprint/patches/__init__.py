"""Where patches come from: sources, batches and augmentation."""

from patchprint.patches.opening import ConcatSource, open_source
from patchprint.patches.source import PatchSource
from patchprint.patches.store import PatchStore
from patchprint.patches.tracks import Tracks, TrackStore

__all__ = ["ConcatSource", "PatchSource", "PatchStore", "TrackStore", "Tracks", "open_source"]

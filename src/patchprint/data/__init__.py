"""Training data: patch and image stores, batches, augmentation."""

from patchprint.data.open_store import ConcatSource, open_source
from patchprint.data.patch_source import PatchSource
from patchprint.data.patch_store import PatchStore
from patchprint.data.tracks import Tracks, TrackStore

__all__ = ["ConcatSource", "PatchSource", "PatchStore", "TrackStore", "Tracks", "open_source"]

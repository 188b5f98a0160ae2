"""A patch store of two scenes, written from given patches."""

import numpy as np

from patchprint.data import PatchStore


def write_patches(folder, patches, **more):
    """Thirty patches of seven points, out of order in scene a and in runs of three in scene b; returns their points."""
    point = np.array([7, 3, 7] * 5 + [100 + i // 3 for i in range(15)])
    scene = (point >= 100).astype(np.int64)
    more = {"scene_names": ["a", "b"], "patch_scale": 12.0, **more}
    PatchStore.write(folder, [patches[:20], patches[20:]], point, scene, **more)
    return point

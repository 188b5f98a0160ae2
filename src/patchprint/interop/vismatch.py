"""vismatch (formerly image-matching-models): patchprint as one of its matchers.

>>> from patchprint.interop.vismatch import PatchprintMatcher    # doctest: +SKIP
>>> found = PatchprintMatcher(matcher="graph")("a.jpg", "b.jpg")    # doctest: +SKIP
>>> found["num_inliers"], found["H"], found["inlier_kpts0"]    # doctest: +SKIP

vismatch finds its matchers in a list of its own, which other packages cannot add to. This file uses public names alone, so
that it can stand in vismatch as it is.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from vismatch import BaseMatcher

import patchprint


class PatchprintMatcher(BaseMatcher):
    """Keypoints, learned descriptors and matches of patchprint.

    Args:
        device: cpu, cuda or mps.
        max_num_keypoints: most keypoints of an image.
        model: the name of shipped weights or a weight file, as of ``patchprint.load``.
        matcher: as of ``patchprint.match``.
        detector: as of ``patchprint.extract``.
        kwargs: ransac_iters, ransac_conf and ransac_reproj_thresh, as of all matchers of vismatch.
    """

    def __init__(
        self,
        device: str = "cpu",
        max_num_keypoints: int = 2048,
        *,
        model: str = "patchprint",
        matcher: str = "mutual+ratio",
        detector: str = "dog",
        **kwargs: Any,
    ) -> None:
        super().__init__(device, **kwargs)
        self.describer = patchprint.load(model, device)
        self.settings = patchprint.DetectSettings(detector=detector, max_keypoints=max_num_keypoints)
        self.matcher = matcher

    def _forward(self, img0: Tensor, img1: Tensor) -> tuple[Tensor | None, ...]:
        a, b = (patchprint.extract(image, self.describer, settings=self.settings) for image in (img0, img1))
        found = patchprint.match(a, b, self.matcher, device=self.device)
        return *found.points(a, b), a.keypoints.xy, b.keypoints.xy, a.descriptors, b.descriptors, found.score

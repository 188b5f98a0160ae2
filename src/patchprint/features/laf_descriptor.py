"""A detector and a descriptor for ``kornia.feature.LocalFeature``, which pass keypoints on as local affine frames (LAFs)."""

from functools import partial

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.detectors import MAX_KEYPOINTS, check_detector, detect
from patchprint.features.model import ModelLike, NetworkModel, load
from patchprint.interop.images import to_gray
from patchprint.interop.kornia import MR_SIZE, to_lafs
from patchprint.ops.sampling import ImagePyramids, sample_patches

_CHUNK = 1024  # patches in memory at a time


class LAFDetector(nn.Module):
    """A detector of patchprint in the place of ``kornia.feature.ScaleSpaceDetector``; no gradients pass through it.

    >>> feature = KF.LocalFeature(LAFDetector("dog"), LAFDescriptor("patchprint"))   # doctest: +SKIP
    >>> matcher = KF.LocalFeatureMatcher(feature, KF.DescriptorMatcher("smnn", 0.85))   # doctest: +SKIP

    Args:
        detector, max_keypoints, upright, spread: as of `patchprint.detect`.
        mr_size: half of the side of a LAF in units of sigma (kornia's detectors: 6).

    Shape:
        image (B, 1 | 3, H, W) float in [0, 1], mask (B, 1, H, W) or None, zero where nothing may be found ->
        LAFs (B, max_keypoints, 2, 3) and responses (B, max_keypoints), zero behind the last keypoint, as in kornia.
    """

    def __init__(
        self,
        detector: str = "dog",
        *,
        max_keypoints: int = MAX_KEYPOINTS,
        upright: bool = False,
        spread: bool = True,
        mr_size: float = MR_SIZE,
    ) -> None:
        super().__init__()
        check_detector(detector, max_keypoints)
        self._detect = partial(detect, detector=detector, max_keypoints=max_keypoints, upright=upright, spread=spread)
        self.max_keypoints, self.mr_size = max_keypoints, mr_size

    @torch.no_grad()
    def forward(self, image: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        lafs = image.new_zeros(len(image), self.max_keypoints, 2, 3)
        responses = lafs.new_zeros(lafs.shape[:2])
        for number, pixels in enumerate(_to_gray(image).round().to(torch.uint8).cpu().numpy()):
            allowed = None if mask is None else mask[number, 0].cpu().numpy()
            found = self._detect(pixels, mask=allowed)
            lafs[number, : len(found)] = to_lafs(found, self.mr_size)[0].to(lafs)
            responses[number, : len(found)] = (found.scale if found.score is None else found.score).to(responses)
        return lafs, responses


class LAFDescriptor(nn.Module):
    """Drop-in replacement for ``kornia.feature.LAFDescriptor``, with the sampler and patch scale of patchprint.

    >>> detector = KF.ScaleSpaceDetector(2000, ori_module=KF.LAFOrienter(19))   # doctest: +SKIP
    >>> feature = KF.LocalFeature(detector, LAFDescriptor("patchprint"))   # doctest: +SKIP
    >>> lafs, responses, descriptors = feature(image)   # doctest: +SKIP

    Args:
        model: weights by name or file, a network or a loaded model; binary descriptors come out as signs of unit length, as
            kornia's matchers expect vectors.
        mr_size: what the detector multiplied sigma with (kornia's detectors: 6).

    Gradients reach the image and the LAFs where these require them, as in kornia, and the weights after ``.train()``; else
    nothing is kept for a backward pass. The level of the pyramid that a patch is read from is taken as fixed.

    Shape:
        image (B, 1 | 3, H, W) float in [0, 1], lafs (B, N, 2, 3) -> (B, N, D).
    """

    def __init__(self, model: ModelLike, *, mr_size: float = MR_SIZE) -> None:
        super().__init__()
        loaded = load(model)
        if not isinstance(loaded, NetworkModel):
            raise UserError(f"{loaded.info.name} has no network; give the name of weights, a weight file or a network")
        self.network = loaded.network.eval()
        self.widen = loaded.patch_scale / 2 / mr_size

    def forward(self, image: Tensor, lafs: Tensor) -> Tensor:
        wanted = image.requires_grad or lafs.requires_grad or self.network.training
        with torch.set_grad_enabled(torch.is_grad_enabled() and wanted):
            return self._describe(image, lafs)

    def _describe(self, image: Tensor, lafs: Tensor) -> Tensor:
        gray = _to_gray(image)
        # Bytes are smaller, and what `patchprint.extract` sees.
        pyramids = ImagePyramids.build(gray if gray.requires_grad else gray.round().to(torch.uint8), image.device)
        count = lafs.shape[1]
        which = torch.arange(len(lafs), device=image.device).repeat_interleave(count)
        flat = lafs.reshape(-1, 2, 3).float()
        parts = []
        for start in range(0, len(flat), _CHUNK):
            part = slice(start, start + _CHUNK)
            frames = flat[part, :, :2] * self.widen
            patches = sample_patches(pyramids, which[part], flat[part, :, 2], frames, self.network.input_size)
            parts.append(self.network(patches))
        descriptors = torch.cat(parts) if parts else flat.new_zeros(0, self.network.dim)
        return descriptors.view(len(lafs), count, self.network.dim)


def _to_gray(image: Tensor) -> Tensor:
    """Images (B, 1 | 3, H, W) in [0, 1] to gray values (B, H, W) in [0, 255]."""
    return (image[:, 0] if image.shape[1] == 1 else to_gray(image.movedim(1, -1))).clamp(0, 1).float() * 255

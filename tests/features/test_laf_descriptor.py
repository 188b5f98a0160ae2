"""The stand-in for kornia's descriptors."""

from __future__ import annotations

import kornia.feature as KF
import torch

from patchprint.features import load
from patchprint.features.laf_descriptor import LAFDescriptor
from patchprint.networks import PatchNetwork
from support.known_images import texture


def test_kornia_local_feature_takes_our_network(network: PatchNetwork) -> None:
    image = texture()
    pixels = torch.from_numpy(image)[None, None].float() / 255
    detector = KF.ScaleSpaceDetector(80, ori_module=KF.LAFOrienter(19))
    lafs, _, descriptors = KF.LocalFeature(detector, LAFDescriptor(network))(pixels)
    assert descriptors.shape == (1, 80, network.dim)
    from patchprint.interop.kornia import from_lafs

    filled = lafs[0].abs().sum((1, 2)) > 0
    ours = load(network).describe_keypoints(image, from_lafs(lafs[0, filled]))
    assert torch.allclose(descriptors[0, filled], ours, atol=1e-3)
    assert LAFDescriptor(network)(pixels.expand(2, 3, -1, -1), lafs[:, :0].expand(2, -1, -1, -1)).shape == (
        2,
        0,
        network.dim,
    )

"""The stand-ins for kornia's detectors and descriptors."""

import kornia.feature as KF
import numpy as np
import pytest
import torch

from patchprint.detectors import detect
from patchprint.features import describe_keypoints, load
from patchprint.features.laf_descriptor import LAFDescriptor, LAFDetector
from patchprint.interop.kornia import from_lafs
from patchprint.matching import match
from patchprint.networks import PatchNetwork
from support.known_images import texture, turned


def test_kornia_local_feature_takes_our_network(network: PatchNetwork) -> None:
    image = texture()
    pixels = torch.from_numpy(image)[None, None].float() / 255
    detector = KF.ScaleSpaceDetector(80, ori_module=KF.LAFOrienter(19))
    lafs, _, descriptors = KF.LocalFeature(detector, LAFDescriptor(network))(pixels)
    assert descriptors.shape == (1, 80, network.dim)
    filled = lafs[0].abs().sum((1, 2)) > 0
    ours = load(network).describe_keypoints(image, from_lafs(lafs[0, filled]))
    assert torch.allclose(descriptors[0, filled], ours, atol=1e-3)
    assert LAFDescriptor(network)(pixels.expand(2, 3, -1, -1), lafs[:, :0].expand(2, -1, -1, -1)).shape == (
        2,
        0,
        network.dim,
    )


def test_kornia_matches_our_keypoints_by_our_descriptors(network: PatchNetwork) -> None:
    image = texture()
    other, matrix = turned(image, 20)
    feature = KF.LocalFeature(LAFDetector(max_keypoints=150), LAFDescriptor(network))
    batch = torch.from_numpy(np.stack([image, other]))[:, None].float() / 255
    matcher = KF.LocalFeatureMatcher(feature, KF.DescriptorMatcher("smnn", 0.9))
    found = matcher({"image0": batch[:1], "image1": batch[1:]})
    a, b = (detect(pixels, max_keypoints=150) for pixels in (image, other))
    expected = match(
        *(describe_keypoints(*each, model=network) for each in ((image, a), (other, b))), "mutual+ratio", ratio=0.9
    )
    assert abs(len(found["keypoints0"]) - len(expected)) <= 0.1 * len(expected) and len(expected) > 30
    moved = found["keypoints0"] @ torch.from_numpy(matrix[:, :2]).float().T + torch.from_numpy(matrix[:, 2]).float()
    assert ((moved - found["keypoints1"]).norm(dim=1) < 2).float().mean() > 0.8

    mask = torch.zeros(2, 1, *image.shape)
    mask[0, :, :40, :40] = 1
    lafs, responses, descriptors = feature(batch, mask)
    assert lafs.shape == (2, 150, 2, 3) and responses.shape == (2, 150) and descriptors.shape == (2, 150, network.dim)
    filled = KF.laf_is_filled(lafs)
    assert 0 < filled[0].sum() < 150 and not filled[1].any() and (lafs[0, filled[0], :, 2] < 40.5).all()
    assert torch.allclose(
        from_lafs(lafs[0, filled[0]]).scale, detect(image, max_keypoints=150, mask=mask[0, 0].numpy()).scale
    )


def test_gradients_reach_image_lafs_and_weights(network: PatchNetwork) -> None:
    describe = LAFDescriptor(network)
    image = torch.from_numpy(texture())[None, None].float() / 255
    lafs = torch.tensor([[[[14.0, 3.0, 60.0], [-3.0, 14.0, 50.0]], [[5.0, 0.0, 90.0], [0.0, 5.0, 80.0]]]])
    plain = describe(image, lafs)
    assert not plain.requires_grad, "nothing is kept where nobody asked"

    image.requires_grad_()
    lafs.requires_grad_()
    descriptors = describe(image, lafs)
    assert torch.allclose(descriptors, plain, atol=2e-2), "unrounded pixels make no other descriptor"
    direction = torch.linspace(-1, 1, descriptors.numel()).view_as(descriptors)
    of_image, of_lafs = torch.autograd.grad((descriptors * direction).sum(), (image, lafs))

    def change(at: torch.Tensor, along: torch.Tensor, step: float) -> float:
        ends = [(at + sign * step * along) for sign in (1, -1)]
        both = [describe(*((end, lafs) if at is image else (image, end))).detach() for end in ends]
        return float(((both[0] - both[1]) * direction).sum()) / (2 * step)

    assert change(image, of_image / of_image.norm(), 1e-2) == pytest.approx(float(of_image.norm()), rel=0.05)
    assert change(lafs, of_lafs / of_lafs.norm(), 1e-2) == pytest.approx(float(of_lafs.norm()), rel=0.05)

    describe.train()
    (describe(image.detach(), lafs.detach()) * direction).sum().backward()
    assert all(weight.grad is not None for weight in describe.network.parameters())


def test_without_autograd_nothing_is_kept(network: PatchNetwork) -> None:
    image = torch.from_numpy(texture())[None, None].float().div(255).requires_grad_()
    with torch.no_grad():
        assert not LAFDescriptor(network)(image, torch.eye(2, 3)[None, None] * 9).requires_grad

"""Unit vectors, signs and packed bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from patchprint.networks.blocks import BinaryHead, FloatHead
from patchprint.ops.distances import pack_bits
from support.network_patches import smooth_patches, trained_looking


def test_zero_counts_as_minus_one_and_bit_zero():
    raw = torch.tensor([[0.0, -0.0, 1e-30, -1e-30, 2.0, -2.0, 0.0, 5.0]])
    assert BinaryHead().eval()(raw).sign().tolist() == [[-1, -1, 1, -1, 1, -1, -1, 1]]
    assert pack_bits(raw).tolist() == [[0b00101001]]


def test_bits_are_packed_as_numpy_does():
    raw = torch.randn(5, 64)
    assert np.array_equal(pack_bits(raw).numpy(), np.packbits(raw.numpy() > 0, axis=1))
    with pytest.raises(ValueError, match="multiple of 8"):
        pack_bits(torch.randn(2, 12))


def test_binary_prints_are_tanh_in_training_and_signs_in_evaluation():
    raw = torch.randn(3, 16)
    head = BinaryHead()
    assert torch.allclose(head(raw), torch.nn.functional.normalize(torch.tanh(raw), dim=1), atol=1e-6)
    assert torch.equal(head.eval()(raw), raw.sign() / 4)


def test_dot_products_of_binary_prints_count_differing_bits():
    network = trained_looking("doap-binary", width=8)
    patches = smooth_patches(4)
    descriptors, packed = network(patches), network.describe(patches)
    bits = np.unpackbits(packed.numpy(), axis=1)
    hamming = (bits[:, None] != bits[None]).sum(-1)
    assert torch.allclose(descriptors @ descriptors.T, 1 - 2 * torch.from_numpy(hamming) / 256.0, atol=1e-5)


def test_zero_vectors_stay_finite_with_gradient():
    raw = torch.zeros(2, 8, requires_grad=True)
    FloatHead()(raw).sum().backward()
    assert torch.isfinite(raw.grad).all()


def test_parts_have_equal_length():
    descriptors = FloatHead(parts=2)(torch.randn(3, 10) * torch.tensor([1.0] * 5 + [100.0] * 5))
    assert torch.allclose(descriptors.unflatten(1, (2, 5)).norm(dim=2), torch.full((3, 2), 0.5**0.5))

"""Descriptions on NVIDIA GPUs: those of the network, whatever the number of patches and of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.features import load
from patchprint.networks import engines
from patchprint.networks.engines import cuda

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
# One, a few, a recording and one more, several of the large recording and some.
COUNTS = (1, 5, cuda.CHUNKS[0], cuda.CHUNKS[0] + 1, 2 * cuda.CHUNKS[-1] + 7)


def test_it_is_refused_on_a_cpu() -> None:
    with pytest.raises(
        UserError, match="the engine cuda computes on cuda, and the model is on cpu; leave the engine out"
    ):
        engines.create(networks.create("hardnet"), "cuda")


@needs_gpu
@pytest.mark.parametrize("name", ["hardnet", "hardnet.small", "hynet", "sdgmnet.plain", "sdgmnet", "sdgmnet.tiny"])
@pytest.mark.parametrize("count", COUNTS)
def test_it_says_what_the_network_says(name: str, count: int) -> None:
    apart = 2e-2 if name == "sdgmnet.tiny" else 1e-2  # a sum over fewer channels evens out less of the rounding
    model, exact = (load(name, "cuda", engine=engine) for engine in ("auto", "float32"))
    assert model.engine == "cuda"
    patches = torch.rand(count, 1, model.info.input_size, model.info.input_size)
    expected = exact.describe_patches(patches)
    found = model.describe_patches(patches)
    assert found.device.type == "cpu" and found.shape == expected.shape
    assert (found - expected).abs().max() < apart
    bytes_ = (patches * 255).round().to(torch.uint8)
    assert (model.describe_patches(bytes_) - exact.describe_patches(bytes_)).abs().max() < apart


@needs_gpu
def test_bits_are_nearly_the_same() -> None:
    patches = torch.rand(700, 1, 64, 64)
    found, expected = (
        load("sdgmnet.bits", "cuda", engine=engine).describe_patches(patches) for engine in ("auto", "float32")
    )
    assert found.dtype == torch.uint8
    assert (found != expected).float().mean() < 0.1  # of bytes


@needs_gpu
def test_a_patch_has_the_same_descriptor_alone_and_among_others() -> None:
    model, patches = load("sdgmnet", "cuda"), torch.rand(600, 1, 64, 64)
    together = model.describe_patches(patches)
    assert (model.describe_patches(patches[570:571]) - together[570:571]).abs().max() < 1e-2


@needs_gpu
def test_threads_do_not_mix() -> None:
    model = load("hardnet.small", "cuda")
    batches = [torch.rand(300 + 50 * number, 1, 32, 32) for number in range(8)]
    expected = [model.describe_patches(batch) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, alone in zip(pool.map(model.describe_patches, batches), expected, strict=True):
                assert torch.equal(found, alone)

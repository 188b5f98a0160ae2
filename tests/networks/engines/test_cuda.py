"""The engine for NVIDIA GPUs agrees with the network; its kernels agree with PyTorch's layers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.features import load
from patchprint.networks import engines
from patchprint.networks.engines import cuda
from support import kernels

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
# One, a few, a recording and one more, several of the large recording and some.
COUNTS = (1, 5, cuda.CHUNKS[0], cuda.CHUNKS[0] + 1, 2 * cuda.CHUNKS[-1] + 7)


def test_it_is_refused_on_a_cpu() -> None:
    with pytest.raises(
        UserError, match="the engine cuda computes on cuda, and the model is on cpu; leave the engine out"
    ):
        engines.create(networks.create("hardnet"), "cuda")


@needs_gpu
@pytest.mark.parametrize("name", ["hardnet", "hynet", "patchprint", "patchprint.fast", "patchprint.tiny"])
@pytest.mark.parametrize("count", COUNTS)
def test_it_says_what_the_network_says(name: str, count: int) -> None:
    apart = 2e-2 if name == "patchprint.tiny" else 1e-2  # a sum over fewer channels evens out less of the rounding
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
        load("patchprint.bits", "cuda", engine=engine).describe_patches(patches) for engine in ("auto", "float32")
    )
    assert found.dtype == torch.uint8
    assert (found != expected).float().mean() < 0.1  # of bytes


@needs_gpu
def test_a_patch_has_the_same_descriptor_alone_and_among_others() -> None:
    model, patches = load("patchprint", "cuda"), torch.rand(600, 1, 64, 64)
    together = model.describe_patches(patches)
    assert (model.describe_patches(patches[570:571]) - together[570:571]).abs().max() < 1e-2


@needs_gpu
def test_threads_do_not_mix() -> None:
    model = load("patchprint.tiny", "cuda")
    batches = [torch.rand(300 + 50 * number, 1, 32, 32) for number in range(8)]
    expected = [model.describe_patches(batch) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, alone in zip(pool.map(model.describe_patches, batches), expected, strict=True):
                assert torch.equal(found, alone)


LAYERS = """
import torch.nn.functional as F
from patchprint.networks.engines._cuda_kernels import Layer

def by_layers(x, layer):
    weight = layer.kernel.float().permute(2, 1, 0).unflatten(2, (3, 3))
    y = F.conv2d(x.float().permute(0, 3, 1, 2), weight, layer.shift, stride=layer.stride, padding=1)
    if layer.frn is None:
        return y.relu().permute(0, 2, 3, 1)
    slope, offset, floor = (each[:, None, None] for each in layer.frn[:3])
    y = y * torch.rsqrt(y.square().mean((2, 3), keepdim=True) + layer.frn[3].abs()) * slope + offset
    return torch.maximum(y, floor).permute(0, 2, 3, 1)

# Patches, side, channels in and out, stride; more small maps than a program takes, and fewer.
for count, side, inputs, channels, stride in (
    (3, 32, 1, 32, 1), (2, 32, 1, 16, 2), (2, 32, 32, 32, 1), (2, 16, 32, 64, 2), (5, 8, 64, 64, 1), (3, 8, 128, 128, 1),
    (3, 24, 16, 16, 2), (2, 12, 16, 32, 1), (17, 3, 64, 64, 1), (5, 6, 32, 64, 2),
):
    for is_frn in (False, True) if side & (side - 1) == 0 else (False,):
        x = torch.randn(count, side, side, inputs, device=device)
        kernel = torch.randn(9, inputs, channels, device=device) / (9 * inputs) ** 0.5
        if inputs > 1:
            x, kernel = x.half(), kernel.half()
        shift, slope, offset, floor = torch.randn(4, channels, device=device)
        frn = (slope, offset, floor, torch.tensor([1e-6], device=device)) if is_frn else None
        layer = Layer(kernel, shift, stride, frn, torch.float16)
        found, expected = layer(x), by_layers(x, layer)
        assert found.shape == expected.shape and found.dtype == torch.float16
        assert torch.allclose(found.float(), expected, rtol=2e-3, atol=2e-3), (found - expected).abs().max()
"""

CHAINS = """
from patchprint import networks
from patchprint.networks.engines import cuda
cuda.supports_triton = lambda device: True
for name, is_chain, *options in CASES:
    network = networks.create(name, **({"width": 16} if is_chain else {}), **dict(options)).to(device).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as if it had learned something
            module.running_mean.normal_(0, 0.1), module.running_var.uniform_(0.5, 2)
        for value in (getattr(module, "tau", None), module.bias if type(module).__name__ == "FilterResponseNorm2d" else None):
            if value is not None:
                torch.nn.init.normal_(value, 0, 0.3)
    raw = cuda.half_precision(network, torch.float16)
    assert isinstance(raw, cuda._Chain) == is_chain, name
    patches = torch.rand(3, 1, network.input_size, network.input_size, device=device)
    if is_chain or device.type == "cuda":
        with torch.no_grad():
            found, expected = network.head(raw(patches)), network.describe(patches)
        assert torch.allclose(found, expected, atol=3e-3), (name, (found - expected).abs().max())
"""


def test_layers_equal_pytorch() -> None:
    kernels.run(LAYERS)


@pytest.mark.parametrize(
    "cases",
    [
        [("hardnet", True), ("sosnet", True), ("desdis", True), ("desdis", True, ("fovea", 3), ("size", 48))],
        [("hynet", True), ("tfeat", False), ("l2net-cs", False), ("doap-st", False)],
        [("sdgmnet", True, ("input_norm", "standard")), ("sdgmnet", True, ("input_norm", "standard"), ("fovea", 2))],
    ],
    ids=["batch norm", "others", "sdgmnet"],
)
def test_networks_that_are_chains_go_through_the_kernels(cases: list[tuple]) -> None:
    kernels.run(f"CASES = {cases}\n{CHAINS}")

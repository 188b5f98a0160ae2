"""The GPU kernel of filter response normalisation."""

from support import kernels

KERNEL = """
from patchprint.networks import frn_kernel
from patchprint.networks.blocks import TLU, FilterResponseNorm2d
for channels, side in ((32, 32), (64, 16), (8, 8)):
    norm, unit = FilterResponseNorm2d(channels).to(device), TLU(channels).to(device)
    for parameter in (norm.weight, norm.bias, unit.tau):
        torch.nn.init.normal_(parameter)
    shift = torch.randn(channels, device=device, requires_grad=True)
    x = torch.randn(3, channels, side, side, device=device).contiguous(memory_format=torch.channels_last).requires_grad_()
    inputs = [x, shift, norm.weight, norm.bias, unit.tau]
    plain = unit(norm(x + shift[:, None, None]))
    fused = frn_kernel.frn_tlu(*inputs, norm.eps)[0]
    gradient = torch.randn_like(plain)
    assert torch.allclose(plain, fused, atol=1e-5)
    for a, b in zip(*(torch.autograd.grad(y, inputs, gradient) for y in (plain, fused))):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-3), (a - b).abs().max()
"""


def test_frn_kernel_equals_the_layers():
    kernels.run(KERNEL)

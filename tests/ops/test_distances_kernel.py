"""The two nearest by a GPU kernel."""

from support import kernels

NEAREST = """
from patchprint.ops import distances
for count, total, dim in ((70, 300, 128), (5, 2, 32), (64, 129, 40), (1, 500, 64)):
    queries, base = torch.randn(count, dim, device=device) * 300, torch.randn(total, dim, device=device) * 300
    for k in (1, 2):
        expected = distances.nearest(queries.cpu(), base.cpu(), k)
        found = distances._with_kernel(queries, base, k)
        assert torch.equal(found[1].cpu(), expected[1]), (count, total, dim, k)
        assert torch.allclose(found[0].cpu(), expected[0], rtol=1e-3)
"""


def test_the_kernel_finds_the_two_nearest() -> None:
    kernels.run(NEAREST)

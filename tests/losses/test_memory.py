"""No loss makes a tensor larger than a few tables of all patches against all, forward or backward."""

import pytest
import torch
from torch import Tensor

from patchprint.losses import create
from support.largest_tensor import LargestTensor
from support.loss_batches import EVERY_LOSS, batch_of, make_loss, random_raw


def largest(loss: torch.nn.Module, raw: Tensor) -> tuple[int, int]:
    """Elements of the largest tensor, and bytes kept from forward to backward."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with LargestTensor() as mode, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss(batch_of(raw.float().requires_grad_()))["total"].backward()
    return mode.numel, sum(kept.values())


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_at_most_tables_of_all_patches(variant: str) -> None:
    points = 96
    elements, _ = largest(make_loss(variant), random_raw(points=points, dim=8))
    assert elements <= (2 * points) ** 2


@pytest.mark.parametrize("name", ["doap", "doap-binary"])
def test_average_precision_keeps_nothing_per_bin(name: str) -> None:
    patches, dim = 128, 256

    def measure(bins: int) -> tuple[int, int]:
        return largest(create(name, bins=bins), random_raw(points=patches // 4, views=4, dim=dim))

    (few_elements, few_bytes), (many_elements, many_bytes) = measure(10), measure(100)
    assert few_elements == many_elements == max(patches**2, patches * dim)
    # Ten times the bins adds tables of (patches, bins), which is small beside (patches, patches, bins).
    assert many_bytes - few_bytes < 0.05 * 4 * patches**2 * 90

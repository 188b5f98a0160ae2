"""Every loss compiles as one graph that is reused from step to step, and never waits for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from loss_batches import EVERY_LOSS, VARIANTS, batch_of, make_loss, random_raw
from patchprint.losses import LOSSES
from patchprint.losses.metric import NormalizedNPair, SemiHardTriplet, TupletMargin

METRIC = {"semi-hard": SemiHardTriplet, "n-pair": NormalizedNPair, "tuplet": TupletMargin}


# One of each code path; compiling all settings would take a minute.
COMPILED = (
    *("l2net", "doap", "doap-binary", "sosnet", "hynet-second-order", "sdgm", "cdf", "cdf-binary", "scale-aware"),
    *("hardnet-hardest-triplet", "hardnet-gor-cpr", "tfeat-ratio", "exp-tl", "sec:hardnet-average-softmax"),
)


def test_every_name_is_compiled() -> None:
    assert {VARIANTS[v][0] for v in COMPILED if v in VARIANTS} == set(LOSSES)


@pytest.mark.parametrize("variant", COMPILED)
def test_compiled_equals_eager(variant: str) -> None:
    torch._dynamo.reset()
    eager, other = make_loss(variant), make_loss(variant)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    for step in range(2):
        results = []
        for loss in (eager, compiled):
            raw = random_raw(seed=step).float().requires_grad_()
            with torch.compiler.set_stance("fail_on_recompile" if step else "default"):
                parts = loss(batch_of(raw, progress=0.05 + 0.3 * step, step=step))
            parts["total"].backward()
            results.append(({name: part.detach() for name, part in parts.items()}, raw.grad))
        torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(dict(eager.named_buffers()), dict(other.named_buffers()))


@pytest.mark.parametrize("name", METRIC)
def test_compiled_metric_loss_equals_eager(name: str) -> None:
    torch._dynamo.reset()
    loss, labels = METRIC[name](), torch.tensor([0, 0, 1, 1, 2, 2])
    x = random_raw(6, 1).float()[:, 0]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, labels), loss(x, labels))


class NoHostReads(TorchDispatchMode):
    """Fails on operations that wait for a device's values, or copy constants to it, in forward and backward."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique", "lift_fresh")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1]
        # Indexing with a mask counts its entries first.
        by_mask = name.startswith("index") and any(
            getattr(index, "dtype", None) == torch.bool
            for index in (args[1] if isinstance(args[1], list | tuple) else ())
        )
        if by_mask or name.startswith("unique") or name in self.FORBIDDEN:
            raise AssertionError(f"{func} reads a value back to the host")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_no_host_reads(variant: str) -> None:
    loss, raw = make_loss(variant), random_raw().float().requires_grad_()
    batch = batch_of(raw)
    for _ in range(2):
        with NoHostReads():
            loss(batch)["total"].backward(retain_graph=True)


@pytest.mark.parametrize("name", METRIC)
def test_no_host_reads_of_metric_losses(name: str) -> None:
    x, labels = random_raw(6, 1).float()[:, 0].requires_grad_(), torch.tensor([0, 0, 1, 1, 2, 2])
    with NoHostReads():
        METRIC[name]()(x, labels).backward()


def test_the_watch_for_host_reads_sees_them() -> None:
    value = torch.rand(3)
    for read in (lambda: value.sum().item(), lambda: value[value > 0.5], lambda: bool(value.any())):
        with pytest.raises(AssertionError, match="host"), NoHostReads():
            read()

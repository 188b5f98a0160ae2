"""Every loss compiles as one graph that is reused from step to step, and never waits for the device."""

import pytest
import torch

from support.host_reads import NoHostReads
from support.loss_batches import EVERY_LOSS, batch_of, make_loss, random_raw
from support.slowness import slow_but

# Groups and pairs, running statistics, numbers drawn from the step, and a wrapper. Of these PyTorch derives the gradient ahead
# of time, too, which takes three times as long.
REPRESENTATIVE = {"doap", "hynet", "sdgm", "hardnet-random-triplet", "sec:hardnet-hardest-triplet", "semihard"}


@pytest.mark.parametrize("variant", slow_but(REPRESENTATIVE, EVERY_LOSS))
def test_compiled_equals_eager(variant: str) -> None:
    torch._dynamo.reset()
    eager, other = make_loss(variant), make_loss(variant)
    backend = "aot_eager" if variant in REPRESENTATIVE else "eager"
    compiled = torch.compile(other, fullgraph=True, backend=backend)
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


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_no_host_reads(variant: str) -> None:
    loss, raw = make_loss(variant), random_raw().float().requires_grad_()
    batch = batch_of(raw)
    for _ in range(2):
        with NoHostReads():
            loss(batch)["total"].backward(retain_graph=True)


def test_the_watch_for_host_reads_sees_them() -> None:
    value = torch.rand(3)
    for read in (lambda: value.sum().item(), lambda: value[value > 0.5], lambda: bool(value.any())):
        with pytest.raises(AssertionError, match="host"), NoHostReads():
            read()

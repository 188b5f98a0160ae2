"""One training step on the device, from batch indices to new weights.

A step is a function of a step counter on the device, so that nothing waits for the host and a GPU captures the whole step in
a CUDA graph. All views pass the network at once; batch norm takes statistics over each view alone, as the papers' code does.
"""

import contextlib
import dataclasses
import gc
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchprint import networks
from patchprint.common import distributed as ranks, rng
from patchprint.data import augment
from patchprint.data.patch_source import PatchSource
from patchprint.losses import DescriptorBatch, Loss
from patchprint.networks import fast_layers
from patchprint.networks.network import PatchNetwork
from patchprint.training import assembly
from patchprint.training.checkpoint import TrainState, averaged
from patchprint.training.config import TrainConfig
from patchprint.training.teacher import Teacher

# Steps before a CUDA graph is recorded: they compile, tune and allocate, and are ordinary steps of the run.
_STEPS_BEFORE_CAPTURE = 3

Described = tuple[Tensor, Tensor, Tensor | None]
Cut = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, tuple[Tensor, ...]]


class Step:
    """``run()`` does the next step of a run: loss parts, new weights, and their average; a subclass computes the loss parts.

    After a step ``losses`` holds its loss parts (0-dim) and ``first_bad`` the first step whose loss or weights were not finite,
    or -1. All stay on the device, where a recorded step overwrites them.
    """

    def __init__(self, config: TrainConfig, state: TrainState, device: torch.device) -> None:
        self.config, self.state = config, state
        self.step = torch.tensor(state.step, device=device)
        self.first_bad = torch.tensor(-1, device=device)
        self.losses: dict[str, Tensor] = {}
        self._learning: list[Tensor] = [value for value in state.network.parameters() if value.requires_grad]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps_run = 0
        self._stream: torch.cuda.Stream | None = None  # on which steps are recorded, where they are

    def compute_losses(self) -> dict[str, Tensor]:
        """Compute the loss parts of step ``self.step``, "total" among them."""
        raise NotImplementedError

    def run(self) -> None:
        """Queue one step on the device and return."""
        with self._on_own_stream():
            assembly.set_rates(self.config, self.state.optimizer, self.state.step)
            self._seed_dropout()
            if self._graph is not None:
                self._graph.replay()
            elif self._stream is not None and self._steps_run >= _STEPS_BEFORE_CAPTURE:
                self._graph = self._record()
                self._graph.replay()
            else:
                self._run_once()
        self._steps_run += 1
        self.state.step += 1

    def _run_once(self) -> None:
        losses = self.compute_losses()
        self.state.optimizer.zero_grad(set_to_none=True)
        losses["total"].backward()
        self.state.optimizer.step()
        with torch.no_grad():
            if self.state.average is not None:
                means, values = self.state.average.values(), averaged(self.state.network).values()
                torch._foreach_lerp_(list(means), list(values), 1 - self.config.average)
            self.losses = {name: value.detach() for name, value in losses.items()}
            norms = torch.stack(torch._foreach_norm(self._learning))
            good = torch.isfinite(self.losses["total"]) & torch.isfinite(norms).all()
            self.first_bad.copy_(torch.where(good | (self.first_bad >= 0), self.first_bad, self.step))
            self.step += 1

    def _seed_dropout(self) -> None:
        # Dropout is the one user of PyTorch's own generator; seeding it by the step makes resuming exact.
        place = self.state.step * ranks.world_size() + ranks.rank()
        seed = (self.config.seed * 0x9E3779B1 + place) & 0xFFFFFFFF
        if self.step.device.type == "cuda":
            torch.cuda.default_generators[self.step.device.index or 0].manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)

    @contextlib.contextmanager
    def _on_own_stream(self) -> Iterator[None]:
        """Do the steps on a stream that can be recorded, which the default one cannot."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record the step as a CUDA graph; recording computes nothing."""
        self.state.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._run_once()
        return graph


class TrainStep(Step):
    """A step on patches or images.

    After a step ``described`` holds the unit and raw descriptors (P, K, D) and labels (P,) or None. ``teacher``: that of
    ``config``, if loaded already.
    """

    def __init__(
        self, config: TrainConfig, source: PatchSource, state: TrainState, teacher: Teacher | None = None
    ) -> None:
        device, network = source.device, cast(PatchNetwork, state.network)
        super().__init__(config, state, device)
        self.source, self.network = source, network
        self.described: Described | None = None
        self._patch_dtype = torch.float64 if config.precision == "float64" else torch.float32
        self._batcher = assembly.create_batcher(config, source)
        self._augmentation = augment.create(config.augmentation, source.channels)
        loss = cast(Loss, state.loss)
        self._loss: Callable[..., dict[str, Tensor]] = loss
        self._teacher = teacher or Teacher.load(config, source, use_bf16(config, device))
        self._teach = cast(Callable[..., Tensor] | None, self._teacher)
        self._describe: Callable[..., Any] = _Describe(network, use_bf16(config, device), loss.needs_maps)
        networks.set_num_views(network, config.views if config.separate_views else 1)
        assembly.train_mode(network, config.freeze)
        loss.train()
        self._patches: Callable[..., Any] = self._cut_patches
        self._objective: Callable[..., Any] = self._compute_objective
        self._stream = torch.cuda.Stream(device) if self._accelerate(device) else None

    def compute_losses(self) -> dict[str, Tensor]:
        losses, self.described = self._objective(*self._patches(self.step), self.step)
        return losses

    def _cut_patches(self, step: Tensor) -> Cut:
        """Return patches (K * P, C, S, S) of this rank, first views first; valid (P, K); ignore of all ranks; label (P,); and
        the same patches at each size (K * P, 1, S', S') that the teacher takes."""
        key = rng.key(self.config.seed, step)
        batch = self._batcher.batch(step)
        count, views = batch.views.shape
        # Warp and light are those of the global batch, so that a run does not depend on the number of ranks.
        everyone, mine = count * ranks.world_size(), ranks.share(count)
        extent = torch.ones(everyone, views, 2, device=step.device)
        extent[mine] = self.source.extent(batch.points, batch.views)
        point = None
        if batch.label is not None:
            point = torch.zeros(everyone, dtype=torch.int64, device=step.device)
            point[mine] = batch.label
        warp = self._augmentation.warp(rng.fold_in(key, 1), extent, point)[mine]

        def cut(size: int) -> Tensor:
            patches = self.source.sample(batch.points, batch.views, size, warp)
            patches = self._augmentation.light(rng.fold_in(key, 2), patches, mine.start)
            return patches.transpose(0, 1).flatten(0, 1).to(self._patch_dtype)

        own = self.network.input_size
        patches = cut(own)
        sizes = self._teacher.sizes if self._teacher else ()
        seen = tuple(patches if size == own else cut(size) for size in sizes)
        return patches, batch.valid, batch.ignore, batch.label, seen

    def _compute_objective(
        self,
        patches: Tensor,
        valid: Tensor | None,
        ignore: Tensor | None,
        label: Tensor | None,
        seen: tuple[Tensor, ...],
        step: Tensor,
    ) -> tuple[dict[str, Tensor], Described]:
        desc, raw, maps = self._describe(patches)
        taught = self._teach(seen) if self._teach else None

        def by_point(value: Tensor) -> Tensor:
            return value.unflatten(0, (self.config.views, -1)).transpose(0, 1)

        batch = DescriptorBatch(
            desc=by_point(desc),
            raw=by_point(raw),
            valid=valid,
            ignore=ignore,
            maps=tuple(by_point(value) for value in maps) if maps else None,
            progress=step.float() / self.config.steps,
            step=step,
            label=label,
            teacher=by_point(taught) if taught is not None else None,
        )
        batch = gather_batch(batch)
        # Detached, because a graph that outlives its step would tie the next one to its stream.
        return self._loss(batch), (batch.desc.detach(), batch.raw.detach(), batch.label)

    def _accelerate(self, device: torch.device) -> bool:
        """Compile the step where that helps, distribute it over the ranks; return whether to record it."""
        mode = self.config.acceleration
        if mode == "auto":
            mode = "graph" if device.type == "cuda" else "eager"
        compiles = mode in ("compile", "graph")
        # Trying all algorithms pays in long runs of patches; for backbones it took 19 s and found none that is faster.
        if device.type == "cuda" and not self.config.deterministic and mode != "record":
            torch.backends.cudnn.benchmark = True
        alone = not ranks.is_distributed()
        if device.type == "cpu" or (mode != "eager" and importlib.util.find_spec("triton") is not None):
            for network in (self.network, *(self._teacher.networks if self._teacher else ())):
                fast_layers.fuse(cast(PatchNetwork, network))
        # Patches that come from disk or are decoded on the host cannot be part of a compiled step.
        resident = self.source.is_resident
        if compiles:
            if resident:
                self._patches = _compiled(self._patches)
            if alone:
                self._objective = _compiled(self._objective)
            else:
                self._describe = _compiled(self._describe)
                self._teach = _compiled(self._teach) if self._teach else None
                self._loss = _compiled(self._loss)
        if not alone:
            # Batch statistics are those of the global batch already, hence nothing to broadcast.
            self._describe = nn.parallel.DistributedDataParallel(self._describe, broadcast_buffers=False)
        return mode in ("record", "graph") and device.type == "cuda" and alone and resident


def gather_batch(batch: DescriptorBatch) -> DescriptorBatch:
    """Gather the batch of all ranks, in the order of the ranks.

    In-batch negatives span all ranks, so descriptors are gathered before the loss, of whose tables of all pairs each rank
    computes the rows of its own anchors (``ranks.Rows``). The gradient flows back into the rank's own share only, multiplied
    by the number of ranks, because DistributedDataParallel divides the sum over ranks by it. ``ignore`` is known for the
    global batch already.

    Shape:
        desc, raw, valid, label, teacher and maps (P / ranks, ...) -> (P, ...).
    """
    world = ranks.world_size()
    if world == 1:
        return batch

    def gathered(value: Any) -> Any:
        return None if value is None else ranks.gather(value, weight=world)

    return dataclasses.replace(
        batch,
        desc=gathered(batch.desc),
        raw=gathered(batch.raw),
        valid=None if batch.valid is None else gathered(batch.valid.to(torch.uint8)).bool(),
        maps=None if batch.maps is None else tuple(map(gathered, batch.maps)),
        label=gathered(batch.label),
        teacher=gathered(batch.teacher),
        rows=ranks.Rows.of_this_rank(),
    )


def _compiled(function: Any) -> Any:
    from torch import _inductor  # takes a second

    # Joining sums over rows with sums over columns fails for an input of two channels in PyTorch 2.11.
    known = "triton.mix_order_reduction" in _inductor.list_options()
    return torch.compile(function, dynamic=False, options={"triton.mix_order_reduction": False} if known else None)


class _Describe(nn.Module):
    """Network and precision: patches (N, C, S, S) -> unit (N, D), raw (N, D), maps, all float32."""

    def __init__(self, network: PatchNetwork, bf16: bool, with_maps: bool) -> None:
        super().__init__()
        self.network, self.bf16, self.with_maps = network, bf16, with_maps

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        with torch.autocast(patches.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            raw, maps = self.network.forward_features(patches, with_maps=self.with_maps)
        return self.network.head(raw), raw, tuple(value.to(raw.dtype) for value in maps or ())


def use_bf16(config: TrainConfig, device: torch.device) -> bool:
    """Whether the network computes in bfloat16; "auto": on GPUs that support it and CPUs with AMX."""
    if config.precision != "auto":
        return config.precision == "bf16"
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_amx_tile_supported()


def largest_batch(config: TrainConfig, source: PatchSource) -> int | None:
    """Return the largest half, quarter, ... of the batch that fits into memory, or None."""
    batch = config.batch // 2
    while batch >= 2:
        if _fits(dataclasses.replace(config, batch=batch, acceleration="eager"), source):
            return batch
        batch //= 2
    return None


def _fits(config: TrainConfig, source: PatchSource) -> bool:
    gc.collect()
    if source.device.type == "cuda":
        torch.cuda.empty_cache()
    try:
        TrainStep(config, source, assembly.create(config, source.device)).run()
    except torch.OutOfMemoryError:
        return False
    return True

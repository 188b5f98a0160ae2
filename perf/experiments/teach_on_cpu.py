r"""Goes on with the weights of a small student on a CPU: the teacher speaks once of many patches, the student hears it often.

    python -m perf.experiments.teach_on_cpu perf/experiments/tries/tiny-48.json --init runs/tries/tiny-48/best.safetensors \
        --teacher sdgmnet --cache runs/tiny-48/heard --out runs/tiny-48/longer.safetensors

On a CPU nearly all of a step of distillation is the teacher, which is forty times as large as such a student. Patches, their
changes, the loss and the schedule are those of the run file; only do patches come again, each with what was said of it.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from patchprint.devices import kept_memory
from patchprint.features import load
from patchprint.losses import Loss
from patchprint.networks import PatchNetwork, TrainingRecord, weights
from patchprint.patches.opening import open_source
from patchprint.training import TrainConfig, assembly, optimizers, resolve
from patchprint.training.resolving import RunFile
from patchprint.training.step import TrainStep
from patchprint.types import DescriptorBatch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run file of the student")
    parser.add_argument("--init", required=True, help="weights that it goes on from")
    parser.add_argument("--teacher", required=True)
    parser.add_argument(
        "--cache", type=Path, required=True, help="folder for patches and what the teacher says of them"
    )
    parser.add_argument("--batches", type=int, default=400, help="batches of patches that are cut")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    file = RunFile.read(arguments.run)
    assert file.recipe is not None
    changes = {"teacher": (arguments.teacher,), "init": arguments.init, "device": "cpu", "lr": arguments.lr}
    config = resolve(file.recipe, file, steps=arguments.steps, **changes)
    torch.set_num_threads(arguments.threads)
    with kept_memory():
        network = learn(config, *listen(config, arguments.cache, arguments.batches))
    record = TrainingRecord(config.recipe, step=config.steps, start=arguments.init, config=config.to_json())
    side = config.patch_scale or network.info.patch_scale
    weights.save(network, arguments.out, dataclasses.replace(network.info, patch_scale=side, training=record))


def listen(config: TrainConfig, folder: Path, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches as the student sees them, and what the teacher says of them; cut where the folder does not have them yet.

    Shape:
        (B, N, S, S) uint8, (B, N, D) float16.
    """
    files = folder / "patches.npy", folder / "said.npy"
    if not files[1].exists():
        folder.mkdir(parents=True, exist_ok=True)
        source = open_source(config.data, torch.device("cpu"), config.patch_scale).split("train")
        step = TrainStep(config, source, assembly.create(config, source.device))
        teacher, shape = load(config.teacher[0], engine="openvino"), (batches, config.batch * config.views)
        side = step.state.network.input_size
        seen = np.lib.format.open_memmap(files[0], "w+", np.uint8, (*shape, side, side))
        said = np.empty((*shape, teacher.dim), np.float16)
        for number in tqdm(range(batches), desc="cut"):
            own, *_, shown = step.cut_patches(torch.tensor(number))
            seen[number] = (own[:, 0] * 255).round().byte().numpy()
            said[number] = teacher.describe_patches(shown[0]).half().numpy()
        seen.flush()
        np.save(files[1], said)
    return np.load(files[0], mmap_mode="r"), np.load(files[1])


def learn(config: TrainConfig, patches: np.ndarray, said: np.ndarray) -> PatchNetwork:
    state = assembly.create(config, torch.device("cpu"))
    order = np.random.default_rng(config.seed)
    said_every = max(config.steps // 20, 1)
    for step in tqdm(range(config.steps), desc="learn"):
        batch = order.integers(len(patches))
        optimizers.set_rates(config, state.optimizer, step)
        with torch.autocast("cpu", torch.bfloat16):
            raw, _ = state.network.forward_features(_in_floats(patches[batch]), with_maps=False)
        desc = state.network.head(raw.float())
        total = _loss(state.loss, desc, raw, torch.from_numpy(said[batch]).float(), config.views)
        state.optimizer.zero_grad(set_to_none=True)
        total.backward()
        state.optimizer.step()
        if step % said_every == 0 or step == config.steps - 1:
            print(f"step {step}, loss {total.item():.4f}", flush=True)
    return state.network.eval()


def _in_floats(patches: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(patches)).unsqueeze(1).float() / 255


def _loss(loss: Loss, desc: Tensor, raw: Tensor, said: Tensor, views: int) -> Tensor:
    def by_point(value: Tensor) -> Tensor:
        return value.unflatten(0, (views, -1)).transpose(0, 1)

    return loss(DescriptorBatch(desc=by_point(desc), raw=by_point(raw), teacher=by_point(said)))["total"]


if __name__ == "__main__":
    main()

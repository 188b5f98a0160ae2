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
from patchprint.files import atomic_file
from patchprint.networks import TrainingRecord, weights
from patchprint.patches.opening import open_source
from patchprint.training import assembly, resolve
from patchprint.training.resolving import RunFile
from patchprint.training.step import Cut, TrainStep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run file of the student")
    parser.add_argument("--init", required=True, help="weights that it goes on from")
    parser.add_argument("--teacher", required=True)
    parser.add_argument(
        "--cache",
        type=Path,
        required=True,
        help="folder for patches and what the teacher says of them; one for a run file",
    )
    parser.add_argument("--batches", type=int, default=240, help="batches of patches that are cut")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    file = RunFile.read(arguments.run)
    assert file.recipe is not None
    changes = {"teacher": (arguments.teacher,), "init": arguments.init, "device": "cpu", "precision": "bf16"}
    config = resolve(file.recipe, file, steps=arguments.steps, lr=arguments.lr, **changes)
    source = open_source(config.data, torch.device("cpu"), config.patch_scale).split("train")
    step = TrainStep(config, source, assembly.create(config, source.device))
    with kept_memory():
        learn(step, *listen(step, arguments.cache, arguments.batches))
    network = step.state.network.eval()
    record = TrainingRecord(config.recipe, step=config.steps, start=arguments.init, config=config.to_json())
    side = config.patch_scale or network.info.patch_scale
    weights.save(network, arguments.out, dataclasses.replace(network.info, patch_scale=side, training=record))


def listen(step: TrainStep, folder: Path, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """Patches as the student sees them, and what the teacher says of them; cut where the folder does not have them yet.

    Shape:
        (B, N, S, S) uint8, (B, N, D) float16.
    """
    files = folder / "patches.npy", folder / "said.npy"
    if not files[1].exists():
        folder.mkdir(parents=True, exist_ok=True)
        config, side = step.config, step.state.network.input_size
        teacher, shape = load(config.teacher[0], engine="openvino"), (batches, config.batch * config.views)
        seen = np.lib.format.open_memmap(files[0], "w+", np.uint8, (*shape, side, side))
        said = np.empty((*shape, teacher.dim), np.float16)
        for number in tqdm(range(batches), desc="cut"):
            own, *_, shown = step.cut_patches(torch.tensor(number))
            seen[number] = (own[:, 0] * 255).round().byte().numpy()
            said[number] = teacher.describe_patches(shown[0]).half().numpy()
        seen.flush()
        with atomic_file(files[1]) as temporary, temporary.open("wb") as stream:
            np.save(stream, said)
    return np.load(files[0], mmap_mode="r"), np.load(files[1])


def learn(step: TrainStep, patches: np.ndarray, said: np.ndarray) -> None:
    """Steps of the run, in which cutting and teaching are reading."""
    order = np.random.default_rng(step.config.seed)

    def again(_: Tensor) -> Cut:
        batch = order.integers(len(patches))
        own = torch.from_numpy(np.array(patches[batch])).unsqueeze(1).float() / 255
        return own, None, None, None, (torch.from_numpy(said[batch]).float(),)

    step._patches, step._teach = again, lambda seen: seen[0]
    steps = step.config.steps
    for number in tqdm(range(steps), desc="learn"):
        step.run()
        if number % max(steps // 20, 1) == 0 or number == steps - 1:
            print(f"step {number}, loss {step.losses['total'].item():.4f}", flush=True)


if __name__ == "__main__":
    main()

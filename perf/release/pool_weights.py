"""Make weights that average descriptors of three patch sizes, from weights trained with one (networks/wrappers.py).

    python -m perf.release.pool_weights sdgmnet.large --out runs/pooled.safetensors

Nothing is trained: the patch becomes a larger one, of which the network sees nested squares. Which side suits it,
perf.experiments.choose_weights says.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from patchprint import networks
from patchprint.networks import ModelInfo, weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="name or file")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    info = pool(arguments.weights, arguments.out)
    print(f"{arguments.out}: {info.input_size} x {info.input_size} pixels")


def pool(name_or_file: str | Path, out: Path) -> ModelInfo:
    """Write the pooled weights; returns what their card says."""
    alone = weights.load_network(name_or_file)
    pooled = networks.create(alone.info.network, **{**alone.info.options, "pooled": True})
    pooled.load_state_dict({f"network.{name}": value for name, value in alone.state_dict().items()})
    notes = f"{alone.info.name} ({alone.info.sha256[:8]}), the mean of three sizes"
    info = dataclasses.replace(alone.info, name=f"{alone.info.name}.pooled", ratio=None, notes=notes)
    return weights.save(pooled, out, info, half=True)


if __name__ == "__main__":
    main()

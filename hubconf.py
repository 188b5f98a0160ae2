"""Entry points of ``torch.hub``: ``torch.hub.load(REPOSITORY, "network", "patchprint")``; patchprint need not be installed."""

import sys
from pathlib import Path

import torch

dependencies = ["torch", "numpy", "safetensors", "tqdm"]
sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))


def network(name: str = "patchprint", device: str = "cpu") -> torch.nn.Module:
    """A patch network with trained weights: patches (N, 1, S, S), uint8 or in [0, 1], to unit vectors (N, D).

    ``network.info`` has the size of its input, the side of patches in units of a keypoint's scale, license and training data.
    """
    from patchprint.networks.weights import load_network

    return load_network(name, device)


def descriptor(name: str = "patchprint", mr_size: float = 6.0) -> torch.nn.Module:
    """A descriptor of keypoints: images (B, 1 | 3, H, W) and local affine frames (B, N, 2, 3) to (B, N, D), as in kornia."""
    from patchprint.features.laf_descriptor import LAFDescriptor

    return LAFDescriptor(name, mr_size=mr_size)

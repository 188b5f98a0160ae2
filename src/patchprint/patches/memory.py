"""How much of a store may lie in memory."""

from __future__ import annotations

import torch

_HOST_GB = 8.0


def resident_budget(device: torch.device | str, max_gb: float | None) -> int:
    """Bytes: ``max_gb`` where it is given, else half of what is free on a GPU, or 8 GiB on the host."""
    if max_gb is None and torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(torch.device(device))[0] // 2
    return int((_HOST_GB if max_gb is None else max_gb) * 2**30)

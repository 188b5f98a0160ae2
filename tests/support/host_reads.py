"""A watch for operations that wait for a device, which would stall training on a GPU."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


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

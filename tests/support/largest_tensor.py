"""How large the largest tensor of a computation is."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that an operation returned."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # Views take no memory; an expanded one may look large.
        owners = [t for t in tree_leaves(result) if isinstance(t, Tensor) and t._base is None]
        self.numel = max([self.numel, *(t.untyped_storage().nbytes() // t.element_size() for t in owners)])
        return result

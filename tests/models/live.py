"""Memory that tensors take, counted operation by operation."""

import weakref
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from models.frames import Frames
from tests.models.conftest import tensors


class Live(TorchDispatchMode):
    """Bytes that operations under it have taken and that are in use, now and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        results = operation(*args, **(kwargs or {}))
        given, made = (
            {leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}
            for tree in ((args, kwargs), results)
        )
        for storage in made - given:
            if storage not in self.seen:
                self.seen[storage] = True
                self.now += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return results

    def _free(self, size: int) -> None:
        self.now -= size


def peak_bytes(model: nn.Module, frames: Frames) -> int:
    """Most bytes that a forward and a backward pass hold at once, the new gradients among them."""
    with Live() as live:
        outputs = tensors(model(frames))
        sum(value.sum() for value in outputs.values()).backward()
    return live.peak

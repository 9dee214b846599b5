"""Memory that tensors take, counted operation by operation."""

import weakref
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from models.frames import Frames


class Live(TorchDispatchMode):
    """Bytes on one type of device that operations under it have taken and that are still in use.

    Storages that stood before are left out, and so is the work space inside an operation.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.now = self.peak = 0
        self.seen = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {tensor.untyped_storage()._cdata for tensor in self._tensors((args, kwargs))}
        results = operation(*args, **(kwargs or {}))
        for tensor in self._tensors(results):
            storage = tensor.untyped_storage()
            if tensor.untyped_storage()._cdata not in given and storage not in self.seen:
                self.seen[storage] = True
                self.now += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return results

    def _tensors(self, values: Any) -> list[Tensor]:
        leaves = (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))
        return [leaf for leaf in leaves if leaf.device.type == self.device]

    def _free(self, size: int) -> None:
        self.now -= size


def peak_bytes(model: nn.Module, frames: Frames) -> int:
    """Most bytes that a forward and a backward pass hold at once, the new gradients among them.

    The loss is the sum of all outputs. Clears the gradients.
    """
    model.zero_grad(set_to_none=True)
    with Live("cpu") as live:
        outputs = model(frames)
        values = [getattr(outputs, field.name) for field in fields(outputs)]
        torch.stack([value.sum() for value in values if isinstance(value, Tensor)]).sum().backward()
        del outputs, values
    model.zero_grad(set_to_none=True)
    return live.peak

"""The network as a function of tensors alone, so that a GPU can record it. B blocks, T slots.

The order of walks by segments differs from batch to batch. By slots, all batches of a shape are one
CUDA graph, or one graph of `torch.compile`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from bload.batch.trees import to_device
from models.dds import DDS
from models.network_input import NetworkInput
from models.outputs import trained_fields

INPUT_FIELDS = [field.name for field in fields(NetworkInput)]


class TensorNetwork(nn.Module):
    """A network in training, tensors in and tensors out.

    Args:
        example: input of the batches to come. All must have its tensors, of the same shapes.
        precision: returns the context of each pass, such as an autocast that caches nothing.
    """

    def __init__(
        self,
        model: DDS,
        example: NetworkInput,
        precision: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        super().__init__()
        self.model, self.precision = model, precision
        self.names = [name for name in INPUT_FIELDS if isinstance(getattr(example, name), Tensor)]

    def tensors(self, inputs: NetworkInput) -> tuple[Tensor, ...]:
        """Return the tensors of the input, on the device; extents of full canvases are 1."""
        if inputs.extent_BT2 is None and "extent_BT2" in self.names:
            inputs = replace(inputs, extent_BT2=torch.ones(*inputs.start_BT.shape, 2))
        values = (getattr(inputs, name) for name in INPUT_FIELDS)
        device = inputs.pixels_BTCHW.device
        return tuple(to_device(value, device) for value in values if isinstance(value, Tensor))

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that have a gradient, in the order of `Outputs`."""
        given: dict[str, Any] = dict(zip(self.names, values, strict=True))
        with self.precision():
            return trained_fields(self.model(NetworkInput(**given, order="slots")))

"""The network as a function of tensors alone, so that a GPU can record it. B blocks, T slots.

The orders of walks in `Frames` differ from batch to batch. Without orders, walks go slot by slot,
and all batches of a shape are one CUDA graph, or one graph of `torch.compile`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields

import torch
from torch import Tensor, nn

from bload.batch.trees import to_device
from models.dds import DDS
from models.frames import Frames
from models.outputs import Outputs


class FlatCore(nn.Module):
    """A network in training, tensors in and tensors out.

    Args:
        example: frames of the batches to come. All must have its shapes, and extents and extra
            numbers if it has them.
        precision: returns the context of each pass, such as an autocast that caches nothing.
    """

    def __init__(
        self,
        model: DDS,
        example: Frames,
        precision: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        super().__init__()
        self.model, self.precision = model, precision
        self.has_extent, self.has_extra = (
            values is not None for values in (example.extent_BT2, example.extra_BT)
        )

    def tensors(self, frames: Frames) -> tuple[Tensor, ...]:
        """Return the arguments of `forward`, on the device; extents of full canvases are 1."""
        shape_BT, extent_BT2, valid_BT = frames.start_BT.shape, frames.extent_BT2, frames.valid_BT
        if valid_BT is None:
            valid_BT = torch.ones(shape_BT, dtype=torch.bool)
        values: list[Tensor | None] = [frames.start_BT, valid_BT]
        if self.has_extent or extent_BT2 is not None:
            values.append(torch.ones(*shape_BT, 2) if extent_BT2 is None else extent_BT2)
        values.append(frames.extra_BT)
        device = frames.pixels_BTCHW.device
        moved = [to_device(value, device) for value in values if value is not None]
        return frames.pixels_BTCHW, *moved

    def forward(
        self, pixels_BTCHW: Tensor, start_BT: Tensor, valid_BT: Tensor, *others: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the predictions that have a gradient, in the order of `Outputs`.

        Args:
            others: extents ``(B, T, 2)`` and a number per frame ``(B, T)``, as the example has.
        """
        extent_BT2 = others[0] if self.has_extent else None
        extra_BT = others[-1] if self.has_extra else None
        frames = Frames(pixels_BTCHW, start_BT, valid_BT, extent_BT2, extra_BT)
        with self.precision():
            return predictions(self.model.compute(frames))


def predictions(outputs: Outputs) -> tuple[Tensor, ...]:
    """Return the fields of the outputs that have a gradient, in their order."""
    values = (getattr(outputs, field.name) for field in fields(outputs))
    return tuple(value for value in values if isinstance(value, Tensor) and value.requires_grad)

"""Slots whose frames are computed: all of a batch, or only those that hold a frame.

B blocks, T slots, I computed slots, V = B * T slots.
"""

from dataclasses import dataclass

from torch import Tensor

from bload.batch.trees import to_device


@dataclass(frozen=True, slots=True)
class ComputedSlots:
    """The computed slots of a batch."""

    shape_BT: tuple[int, int]
    computed_BT: Tensor | None = None
    """Bool, on the host; None: all slots."""

    def chunk(self, first: int, slots: int) -> "ComputedSlots":
        """Return the computed slots among `slots` slots of each block from `first` on."""
        part_BT = None if self.computed_BT is None else self.computed_BT[:, first : first + slots]
        return ComputedSlots((self.shape_BT[0], slots), part_BT)

    def gather(self, values_BT: Tensor) -> Tensor:
        """Return the values of the computed slots: ``(B, T, ...)`` -> ``(I, ...)``."""
        values_V = values_BT.flatten(0, 1)
        return values_V if self.computed_BT is None else values_V[self._index(values_V)]

    def scatter(self, values_LI: Tensor) -> Tensor:
        """Put values into their slots: ``(L, I, ...)`` -> ``(L, B, T, ...)``, 0 in the others."""
        if self.computed_BT is None:
            return values_LI.unflatten(1, self.shape_BT)
        values_LV = values_LI.new_zeros(
            len(values_LI), self.computed_BT.numel(), *values_LI.shape[2:]
        )
        values_LV[:, self._index(values_LI)] = values_LI
        return values_LV.unflatten(1, self.shape_BT)

    def _index(self, reference: Tensor) -> Tensor:
        """Return the index ``(I,)`` of computed slots; made on the host, without synchronising."""
        assert self.computed_BT is not None
        return to_device(self.computed_BT.flatten().nonzero().squeeze(1), reference.device)

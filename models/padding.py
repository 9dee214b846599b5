"""Work on single frames, on every slot of a batch or on the slots that hold a frame alone.

B blocks, T slots, I computed slots: all, or those of `computed_BT`.
"""

from torch import Tensor

from bload.batch.trees import to_device


def to_compute(valid_BT: Tensor) -> Tensor:
    """The slots to compute where padding is skipped: the valid ones; without any, the first slot.

    Every parameter then has a gradient on every rank, if only one of zeros.
    """
    computed_BT = valid_BT.clone()
    computed_BT[0, 0] |= ~valid_BT.any()
    return computed_BT


def take(values_BT: Tensor, computed_BT: Tensor | None) -> Tensor:
    """``(B, T, ...)`` -> ``(I, ...)``; `computed_BT` is on the host, None takes all slots."""
    values_V = values_BT.flatten(0, 1)
    return values_V if computed_BT is None else values_V[places(computed_BT, values_V)]


def put(values_LI: Tensor, shape_BT: tuple[int, int], computed_BT: Tensor | None) -> Tensor:
    """``(L, I, ...)`` -> ``(L, B, T, ...)``, 0 where nothing was computed."""
    if computed_BT is None:
        return values_LI.unflatten(1, shape_BT)
    values_LV = values_LI.new_zeros(len(values_LI), computed_BT.numel(), *values_LI.shape[2:])
    values_LV[:, places(computed_BT, values_LI)] = values_LI
    return values_LV.unflatten(1, shape_BT)


def places(computed_BT: Tensor, like: Tensor) -> Tensor:
    """Index ``(I,)`` of the computed slots, made on the host: nothing waits for the device."""
    return to_device(computed_BT.flatten().nonzero().squeeze(1), like.device)

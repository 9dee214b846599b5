"""Work on single frames, on every slot of a batch or on the slots that hold a frame alone.

B blocks, T slots, I computed slots: all, or those of `computed_BT`.
"""

from torch import Tensor


def to_compute(valid_BT: Tensor) -> Tensor:
    """The slots to compute where padding is skipped: the valid ones; without any, the first slot.

    Every parameter then has a gradient on every rank, if only one of zeros.
    """
    computed_BT = valid_BT.clone()
    computed_BT[0, 0] |= ~valid_BT.any()
    return computed_BT


def take(values_BT: Tensor, computed_BT: Tensor | None) -> Tensor:
    """``(B, T, ...)`` -> ``(I, ...)``; None takes all slots."""
    return values_BT.flatten(0, 1) if computed_BT is None else values_BT[computed_BT]


def put(values_LI: Tensor, shape_BT: tuple[int, int], computed_BT: Tensor | None) -> Tensor:
    """``(L, I, ...)`` -> ``(L, B, T, ...)``, 0 where nothing was computed."""
    if computed_BT is None:
        return values_LI.unflatten(1, shape_BT)
    values_LBT = values_LI.new_zeros(len(values_LI), *shape_BT, *values_LI.shape[2:])
    values_LBT[:, computed_BT] = values_LI
    return values_LBT

"""Work on single frames, for every slot of a batch or only for slots that hold a frame.

B blocks, T slots, I computed slots: all, or those of `computed_BT`.
"""

from torch import Tensor

from bload.batch.trees import to_device


def to_compute(valid_BT: Tensor) -> Tensor:
    """Return the slots to compute if padding is skipped: the valid ones, or the first if none is.

    So every parameter has a gradient on every rank, even if it is zero.
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
    """Return the index ``(I,)`` of computed slots; made on the host, it waits for nothing."""
    return to_device(computed_BT.flatten().nonzero().squeeze(1), like.device)

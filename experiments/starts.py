"""Start tables left out or wrong, to measure what clearing the state at the right frames is worth.

    |a a a b b b .|   table    1 0 0 1 0 0 0   as packed
                      ignored  1 0 0 0 0 0 0   b goes on from the state of a
                      wrong    1 0 0 0 0 1 0   cleared as often, but in the middle of b

B blocks, T slots.
"""

import numpy as np
import torch
from torch import Tensor

from bload.errors import InputError

STARTS = ("table", "ignored", "wrong")


def check_starts(name: str) -> None:
    """Raise `InputError` unless `name` is one of `STARTS`."""
    if name not in STARTS:
        raise InputError(f"starts is {name!r}; choose one of {', '.join(STARTS)}")


def change_starts(start_BT: Tensor, valid_BT: Tensor, name: str, seed: int = 0) -> Tensor:
    """Where states are cleared, bool ``(B, T)``, for packed blocks and one of `STARTS`.

    ``table``: `start_BT` itself. ``ignored``: only slot 0, so that states run over from sequence to
    sequence. ``wrong``: slot 0 and, for each other start, a random slot in the middle of a
    sequence; fewer where a block has not as many. It is a function of `seed` and of where the
    block's sequences start, the same on every rank and in every batch, and it waits
    for the device. Raises `InputError` for another name.
    """
    check_starts(name)
    if name == "table":
        return start_BT
    changed_BT = torch.zeros_like(start_BT)
    changed_BT[:, 0] = start_BT[:, 0]
    if name == "ignored":
        return changed_BT
    rows = zip(start_BT.cpu().numpy(), valid_BT.cpu().numpy(), strict=True)
    for block, (start_T, valid_T) in enumerate(rows):
        slots = np.flatnonzero(start_T)
        others = np.flatnonzero(valid_T & ~start_T)
        rng = np.random.default_rng([seed, *slots, valid_T.sum()])
        drawn = rng.permutation(others)[: max(len(slots) - 1, 0)]
        changed_BT[block, torch.as_tensor(drawn, device=start_BT.device)] = True
    return changed_BT

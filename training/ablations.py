"""Ablations, harmful on purpose: start tables ignored or wrong, padding that is trained on.

    |a a a b b b .|   starts=table      1 0 0 1 0 0 0   as packed
                      starts=ignored    1 0 0 0 0 0 0   b continues from the state of a
                      starts=wrong      1 0 0 0 0 1 0   cleared as often, but in the middle of b

    |a a a b b . .|   padding=masked    zeros, left out of every loss
    |a a a b b b b|   padding=repeated  b's last frame and target, trained on like any other frame

BLoad's released code fills blocks with repeated padding; what the paper's model was trained on is
not known. B blocks, T slots.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bload.batch.batch import Batch


@dataclass(frozen=True)
class Ablation:
    """Change of every batch; without an ablation it stays as it is."""

    starts: str = "table"
    padding: str = "masked"
    seed: int = 0

    def __call__(self, batch: Batch) -> Batch:
        if self.padding == "repeated":
            batch = repeat_last(batch)
        if self.starts != "table":
            start_BT = change_starts(batch.start_BT, batch.valid_BT, self.starts, self.seed)
            batch = replace(batch, start_BT=start_BT)
        return batch


def change_starts(start_BT: Tensor, valid_BT: Tensor, name: str, seed: int = 0) -> Tensor:
    """Return where states are cleared in packed blocks, bool ``(B, T)``, by a name.

    ``ignored``: only slot 0, so that states carry over between sequences. ``wrong``: slot 0 and,
    for each other start, a random slot inside a sequence; fewer if the block has fewer. The draw
    depends only on `seed` and on where the block's sequences lie, on every rank and in every batch.
    """
    changed_BT = torch.zeros_like(start_BT)
    changed_BT[:, 0] = start_BT[:, 0]
    if name == "ignored":
        return changed_BT
    rows = zip(start_BT.cpu().numpy(), valid_BT.cpu().numpy(), strict=True)
    for block, (start_T, valid_T) in enumerate(rows):
        slots = np.flatnonzero(start_T)
        candidates = np.flatnonzero(valid_T & ~start_T)
        rng = np.random.default_rng([seed, *slots, valid_T.sum()])
        chosen_slots = rng.permutation(candidates)[: len(slots) - int(start_T[0])]
        changed_BT[block, torch.as_tensor(chosen_slots, device=start_BT.device)] = True
    return changed_BT


def repeat_last(batch: Batch) -> Batch:
    """Fill the padding of each block with its last frame and target.

    The last segment of a block grows to the block's end, and its new slots are valid. Fillers,
    blocks without a frame, stay empty. The input batch is not modified.
    """
    frames_B = batch.valid_BT.sum(1)
    slots_T = torch.arange(batch.valid_BT.shape[1], device=frames_B.device)
    source_BT = torch.minimum(slots_T, frames_B[:, None] - 1)  # -1 in fillers: all slots are empty
    row_B1 = torch.arange(len(frames_B), device=frames_B.device)[:, None]

    valid_BT = batch.valid_BT[row_B1, source_BT]
    targets, end = [], 0
    for frames, slots in zip(frames_B.tolist(), valid_BT.sum(1).tolist(), strict=True):
        first, end = end, end + frames
        targets += [*batch.targets[first:end], *batch.targets[end - 1 : end] * (slots - frames)]
    old = batch.segments
    is_last_S = old.slot_S + old.length_S == frames_B[old.block_S]
    length_S = torch.where(is_last_S, valid_BT.shape[1] - old.slot_S, old.length_S)
    return replace(
        batch,
        inputs_BT=batch.inputs_BT[row_B1, source_BT],
        targets=tuple(targets),
        valid_BT=valid_BT,
        segments=replace(old, length_S=length_S, longest=max(length_S.tolist(), default=0)),
    )

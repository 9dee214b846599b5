"""States of rows, from step to step under ``loader.long=carry``, in checkpoints.

They are the network's state after each batch of a step: lists and tuples of tensors ``(B, ...)``
and None. B rows of a batch.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from bload import BlockLoader


def pack_row_states(tree: Any) -> Any:
    """Convert row states to lists of tensors on the host: a checkpoint refuses named tuples."""
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return [pack_row_states(part) for part in tree] if isinstance(tree, list | tuple) else tree


def open_row_states(
    saved: Sequence[Sequence[Any] | None], loader: BlockLoader, device: torch.device
) -> list[Any] | None:
    """Restore the states of this rank's rows from what any number of ranks saved.

    Ranks are dealt the rows of a step like cards: row r is row r // W of rank r % W, on W ranks.

    Args:
        saved: `pack_row_states` of every rank that saved; empty at the start of an epoch.
        device: of the model.

    Returns:
        One state per batch of a step; none at the start of an epoch; None if the plan never
        carries.
    """
    if not loader.plan.carries:
        return None
    # All rows of the first rank that saved, then all of the second, and so on.
    states = [state for rank_states in saved for state in rank_states or ()]
    if not states:
        return []
    sampler, rows_R = loader.sampler, loader.sampler.blocks_per_step // len(saved)
    own_rows = torch.arange(sampler.rank, sampler.blocks_per_step, sampler.world_size)
    index = own_rows % len(saved) * rows_R + own_rows // len(saved)
    all_states = _concatenate_rows(states)
    return [
        tree_map_only(Tensor, partial(_select_rows, part, device), all_states)
        for part in index.split(sampler.blocks_per_batch)
    ]


def _select_rows(index: Tensor, device: torch.device, values: Tensor) -> Tensor:
    return values[index].to(device)


def _concatenate_rows(trees: Sequence[Any]) -> Any:
    """Join trees of tensors along their rows."""
    if isinstance(trees[0], list):
        return [_concatenate_rows(parts) for parts in zip(*trees, strict=True)]
    return None if trees[0] is None else torch.cat([*trees])

"""States of rows, from step to step under ``loader.long=carry``, in checkpoints.

They are the network's state after each batch of a step: lists and tuples of tensors ``(B, ...)``
and None. B rows of a batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from bload import BlockLoader


def pack_row_states(row_states: Sequence[Any] | None) -> list[Any]:
    """Convert row states to plain lists of tensors on the host, for a checkpoint."""
    return [_to_host(state) for state in row_states or ()]


def open_row_states(
    saved: Sequence[Sequence[Any]], loader: BlockLoader, device: torch.device
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
    if not saved or not saved[0]:
        return []
    # All rows of the first rank that saved, then all of the second, and so on.
    all_states = _concatenate_rows([_concatenate_rows(states) for states in saved])
    sampler, saved_ranks = loader.sampler, len(saved)
    rows_per_saved_rank = sampler.blocks_per_step // saved_ranks
    own_rows = torch.arange(sampler.rank, sampler.blocks_per_step, sampler.world_size)
    index = own_rows % saved_ranks * rows_per_saved_rank + own_rows // saved_ranks
    return [
        _select_rows(all_states, part, device) for part in index.split(sampler.blocks_per_batch)
    ]


def _to_host(tree: Any) -> Any:
    """Return the tree on the host, with lists for tuples: a checkpoint refuses named ones."""
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return [_to_host(part) for part in tree] if isinstance(tree, list | tuple) else tree


def _select_rows(tree: Any, index: Tensor, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda values: values[index].to(device), tree)


def _concatenate_rows(trees: Sequence[Any]) -> Any:
    """Join trees of tensors along their rows; zeros in front make caches of slots equally long."""
    first = trees[0]
    if isinstance(first, list):
        return [_concatenate_rows(parts) for parts in zip(*trees, strict=True)]
    if first is None:
        return None
    slots = max(tree.shape[1:2] for tree in trees)
    return torch.cat([_pad_slots(tree, slots) for tree in trees])


def _pad_slots(values: Tensor, slots: torch.Size) -> Tensor:
    if values.shape[1:2] == slots:
        return values
    missing = values.new_zeros(len(values), slots[0] - values.shape[1], *values.shape[2:])
    return torch.cat([missing, values], dim=1)

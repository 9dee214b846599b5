"""Memory of rows from step to step under ``long=carry``, and its form in checkpoints.

B rows of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from bload import BlockLoader


@dataclass(frozen=True)
class Carried:
    """Memory of the rows of one batch."""

    state: Any
    """State of the model's memory: lists and tuples of tensors ``(B, ...)`` and None."""
    number_B: Tensor
    """Number of each row's last frame in its video."""


def pack_carried(carried: Sequence[Carried]) -> list[Any]:
    """Convert memories to plain lists of tensors on the host, for a checkpoint."""
    return [_plain((one.state, one.number_B)) for one in carried]


def open_carried(
    saved: Sequence[Sequence[Any]], loader: BlockLoader, device: torch.device
) -> list[Carried] | None:
    """Restore the memory of this rank's rows from what any number of ranks saved.

    The rows of a step are numbered over all ranks, one for each rank in turn.

    Args:
        saved: `pack_carried` of every rank; empty at the start of an epoch.
        device: of the model.

    Returns:
        One memory per batch of a step; none at the start of an epoch; None if the plan never
        carries.
    """
    if not loader.plan.carries:
        return None
    if not saved or not saved[0]:
        return []
    by_rank = [_side_by_side(batches) for batches in saved]
    rows = len(by_rank[0][1])  # of each rank that saved
    everyone = _side_by_side(by_rank)  # rank after rank
    sampler = loader.sampler
    mine = torch.arange(sampler.rank, rows * len(saved), sampler.world_size)
    index = mine % len(saved) * rows + mine // len(saved)
    batches = [_take(everyone, some) for some in index.split(sampler.blocks_per_batch)]
    return [Carried(_to(state, device), number_B) for state, number_B in batches]


def _plain(tree: Any) -> Any:
    """Return the tree on the host, with lists for tuples: a checkpoint refuses named ones."""
    if isinstance(tree, Tensor):
        return tree.detach().cpu()
    return [_plain(part) for part in tree] if isinstance(tree, list | tuple) else tree


def _take(tree: Any, index: Tensor) -> Any:
    return tree_map_only(Tensor, lambda values: values[index], tree)


def _to(tree: Any, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda values: values.to(device), tree)


def _side_by_side(trees: Sequence[Any]) -> Any:
    """Join trees of tensors along their rows; zeros in front make caches of slots equally long."""
    first = trees[0]
    if isinstance(first, list):
        return [_side_by_side(parts) for parts in zip(*trees, strict=True)]
    if first is None:
        return None
    most = max(tree.shape[1:2] for tree in trees)
    return torch.cat([_filled_up(tree, most) for tree in trees])


def _filled_up(values: Tensor, slots: torch.Size) -> Tensor:
    if values.shape[1:2] == slots:
        return values
    missing = values.new_zeros(len(values), slots[0] - values.shape[1], *values.shape[2:])
    return torch.cat([missing, values], dim=1)

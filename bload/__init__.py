"""Block packing of whole sequences for distributed training, with equal steps on every rank.

The library needs only numpy and torch. Start with `from_dataset`, `BlockLoader` and `mean_loss`.
`check_boundaries` tests a model, `unpack` returns outputs by sequence, `walk` runs a recurrent cell
through a batch and clears its state at every start. A loader's parts are `make_plan` (lengths ->
plan), `BlockSampler` (plan -> this rank's blocks), `BlockDataset` and `collate_blocks` (blocks ->
`Batch`). `PACKERS` holds the packing rules by name.
"""

# ruff: noqa: F403, F405
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from bload.packing.cost import Cost, fit_cost
from bload.packing.packers import PACKERS, Packer, make_plan
from bload.packing.pieces import Long, whole_pieces
from bload.packing.plan import Block, Plan
from bload.schedule.schedule import EpochAccount, Schedule

if TYPE_CHECKING:
    from bload.with_torch import *

__version__ = "1.0.0"

__all__ = [
    "PACKERS",
    "Batch",
    "Block",
    "BlockDataset",
    "BlockLoader",
    "BlockSampler",
    "Cost",
    "EpochAccount",
    "InputError",
    "Long",
    "Output",
    "Packer",
    "Plan",
    "Planner",
    "RecurrentPart",
    "Schedule",
    "SequenceSource",
    "Step",
    "StreamBlocks",
    "StreamLoader",
    "WalkOrder",
    "action_genome_lengths",
    "check_boundaries",
    "collate_blocks",
    "fit_cost",
    "from_dataset",
    "make_plan",
    "mean_loss",
    "spread_rows",
    "unpack",
    "walk",
    "whole_pieces",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("bload.with_torch"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

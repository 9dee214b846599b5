"""Block packing of whole sequences for distributed training, with equal steps on every rank.

The library needs only numpy and torch. Start with `BlockLoader`. Its parts are `make_plan` (lengths
-> plan), `BlockSampler` (plan -> this rank's blocks), `BlockDataset` and `collate_blocks` (blocks
-> `Batch`). `walk` runs a recurrent module through a batch and clears its state at every start.
`PACKERS` holds the packing rules by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bload.errors import InputError
from bload.lengths import action_genome_lengths
from bload.packing.cost import Cost, fit_cost
from bload.packing.packers import PACKERS, Packer, make_plan
from bload.packing.pieces import Long, whole_pieces
from bload.packing.plan import Block, Plan

if TYPE_CHECKING:
    from bload.batch.batch import Batch, collate_blocks
    from bload.batch.check import check_boundaries
    from bload.batch.forms import FORMS, find_form
    from bload.batch.losses import mean_loss
    from bload.batch.step import Step
    from bload.batch.unpack import unpack
    from bload.batch.walk import walk
    from bload.batch.walk_order import WalkOrder
    from bload.loading.dataset import BlockDataset, SequenceSource
    from bload.loading.epochs import Epochs
    from bload.loading.from_dataset import from_dataset
    from bload.loading.loader import BlockLoader
    from bload.loading.sampler import BlockSampler
    from bload.loading.stream import StreamBlocks
    from bload.loading.stream_loader import StreamLoader
    from bload.spread import spread_rows

__version__ = "1.0.0"

__all__ = [
    "FORMS",
    "PACKERS",
    "Batch",
    "Block",
    "BlockDataset",
    "BlockLoader",
    "BlockSampler",
    "Cost",
    "Epochs",
    "InputError",
    "Long",
    "Packer",
    "Plan",
    "SequenceSource",
    "Step",
    "StreamBlocks",
    "StreamLoader",
    "WalkOrder",
    "action_genome_lengths",
    "check_boundaries",
    "collate_blocks",
    "find_form",
    "fit_cost",
    "from_dataset",
    "make_plan",
    "mean_loss",
    "spread_rows",
    "unpack",
    "walk",
    "whole_pieces",
]

_WITH_TORCH = {
    "batch.batch": ("Batch", "collate_blocks"),
    "batch.check": ("check_boundaries",),
    "batch.forms": ("FORMS", "find_form"),
    "batch.losses": ("mean_loss",),
    "batch.step": ("Step",),
    "batch.unpack": ("unpack",),
    "batch.walk": ("walk",),
    "batch.walk_order": ("WalkOrder",),
    "loading.dataset": ("BlockDataset", "SequenceSource"),
    "loading.epochs": ("Epochs",),
    "loading.from_dataset": ("from_dataset",),
    "loading.loader": ("BlockLoader",),
    "loading.sampler": ("BlockSampler",),
    "loading.stream": ("StreamBlocks",),
    "loading.stream_loader": ("StreamLoader",),
    "spread": ("spread_rows",),
}
"""Names in modules that need torch, which takes seconds to import; plans and tables do not."""
_MODULES = {name: f"bload.{module}" for module, names in _WITH_TORCH.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Block packing of whole sequences for distributed training, with equal steps on every rank.

The library needs only numpy and torch. Start with `BlockLoader`. Its parts are `make_plan` (lengths
-> plan), `BlockSampler` (plan -> this rank's blocks), `BlockDataset` and `collate_blocks` (blocks
-> `Batch`). `walk` runs a recurrent module through a batch and clears its state at every start.
`PACKERS` holds the packing rules by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bload.errors import InputError
from bload.lengths import action_genome_lengths, read_lengths
from bload.packing.bounds import lower_bound
from bload.packing.cost import Cost, fit_cost
from bload.packing.packer import Packer
from bload.packing.packers import PACKERS, make_plan, natural_t_max
from bload.packing.plan import Block, Plan
from bload.packing.randomness import partner_information, repeat_share
from bload.schedule.balance import BALANCES, make_schedule
from bload.schedule.schedule import EpochAccount, Schedule
from bload.show.columns import padding_table

if TYPE_CHECKING:
    from bload.batch.batch import Batch, BlockSample, collate_blocks
    from bload.batch.check import check_boundaries
    from bload.batch.forms import Form, find_form
    from bload.batch.losses import mean_loss
    from bload.batch.unpack import Output, unpack
    from bload.batch.walk import RecurrentPart, reset_state, walk
    from bload.batch.walk_order import WalkOrder
    from bload.loading.dataset import BlockDataset, SequenceSource
    from bload.loading.from_dataset import from_dataset
    from bload.loading.loader import BlockLoader
    from bload.loading.sampler import BlockSampler
    from bload.loading.stream import StreamBlocks
    from bload.loading.stream_loader import StreamLoader
    from bload.spread import Spread, exchange, spread_rows, transfers

__version__ = "1.0.0"

__all__ = [
    "BALANCES",
    "PACKERS",
    "Batch",
    "Block",
    "BlockDataset",
    "BlockLoader",
    "BlockSample",
    "BlockSampler",
    "Cost",
    "EpochAccount",
    "Form",
    "InputError",
    "Output",
    "Packer",
    "Plan",
    "RecurrentPart",
    "Schedule",
    "SequenceSource",
    "Spread",
    "StreamBlocks",
    "StreamLoader",
    "WalkOrder",
    "action_genome_lengths",
    "check_boundaries",
    "collate_blocks",
    "exchange",
    "find_form",
    "fit_cost",
    "from_dataset",
    "lower_bound",
    "make_plan",
    "make_schedule",
    "mean_loss",
    "natural_t_max",
    "padding_table",
    "partner_information",
    "read_lengths",
    "repeat_share",
    "reset_state",
    "spread_rows",
    "transfers",
    "unpack",
    "walk",
]

# These need torch, which takes seconds to import; plans, tables and measures do not.
_WITH_TORCH = {
    "batch.batch": ("Batch", "BlockSample", "collate_blocks"),
    "batch.check": ("check_boundaries",),
    "batch.forms": ("Form", "find_form"),
    "batch.losses": ("mean_loss",),
    "batch.unpack": ("Output", "unpack"),
    "batch.walk": ("RecurrentPart", "reset_state", "walk"),
    "batch.walk_order": ("WalkOrder",),
    "loading.dataset": ("BlockDataset", "SequenceSource"),
    "loading.from_dataset": ("from_dataset",),
    "loading.loader": ("BlockLoader",),
    "loading.sampler": ("BlockSampler",),
    "loading.stream": ("StreamBlocks",),
    "loading.stream_loader": ("StreamLoader",),
    "spread": ("Spread", "exchange", "spread_rows", "transfers"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(import_module(f"bload.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

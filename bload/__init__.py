"""Block packing of whole sequences for distributed training: the same steps on every rank.

The library needs only numpy and torch. Start with `BlockLoader`; its parts are `make_plan`
(lengths -> plan), `BlockSampler` (plan -> this rank's blocks), `BlockDataset` and `collate_blocks`
(blocks -> `Batch`). `walk` runs a recurrent module through a batch and clears its state at every
start. `PACKERS` holds the packing rules by name.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bload.bounds import lower_bound
from bload.columns import padding_table
from bload.cost import Cost, fit_cost
from bload.dealing import DEALS, deal
from bload.dealt import Dealt, EpochAccount
from bload.errors import InputError
from bload.lengths import action_genome_lengths, read_lengths
from bload.packers import PACKERS, make_plan, natural_t_max
from bload.plan import Block, Plan
from bload.randomness import partner_information, repeat_share

if TYPE_CHECKING:
    from bload.batch import Batch, BlockSample, collate_blocks
    from bload.dataset import BlockDataset, SequenceSource
    from bload.loader import BlockLoader
    from bload.losses import mean_loss
    from bload.outputs import Output, unpack
    from bload.sampler import BlockSampler
    from bload.sources import from_dataset
    from bload.state import RecurrentPart, reset_state, walk
    from bload.stream import StreamBlocks
    from bload.stream_loader import StreamLoader
    from bload.walk_order import WalkOrder

__version__ = "0.1.0"

__all__ = [
    "DEALS",
    "PACKERS",
    "Batch",
    "Block",
    "BlockDataset",
    "BlockLoader",
    "BlockSample",
    "BlockSampler",
    "Cost",
    "Dealt",
    "EpochAccount",
    "InputError",
    "Output",
    "Plan",
    "RecurrentPart",
    "SequenceSource",
    "StreamBlocks",
    "StreamLoader",
    "WalkOrder",
    "action_genome_lengths",
    "collate_blocks",
    "deal",
    "fit_cost",
    "from_dataset",
    "lower_bound",
    "make_plan",
    "mean_loss",
    "natural_t_max",
    "padding_table",
    "partner_information",
    "read_lengths",
    "repeat_share",
    "reset_state",
    "unpack",
    "walk",
]

# These need torch, which takes seconds to import; plans, tables and measures do not.
_WITH_TORCH = {
    "batch": ("Batch", "BlockSample", "collate_blocks"),
    "dataset": ("BlockDataset", "SequenceSource"),
    "sources": ("from_dataset",),
    "loader": ("BlockLoader",),
    "losses": ("mean_loss",),
    "outputs": ("Output", "unpack"),
    "sampler": ("BlockSampler",),
    "state": ("RecurrentPart", "reset_state", "walk"),
    "stream": ("StreamBlocks",),
    "stream_loader": ("StreamLoader",),
    "walk_order": ("WalkOrder",),
}


def __getattr__(name: str) -> Any:
    for module, names in _WITH_TORCH.items():
        if name in names:
            return getattr(import_module(f"bload.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

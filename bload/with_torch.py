"""The public names that need torch, which takes seconds to import; plans and tables do not."""

from bload.batch.batch import Batch as Batch
from bload.batch.batch import collate_blocks as collate_blocks
from bload.batch.check import check_boundaries as check_boundaries
from bload.batch.losses import mean_loss as mean_loss
from bload.batch.spread import spread_rows as spread_rows
from bload.batch.step import Step as Step
from bload.batch.unpack import Output as Output
from bload.batch.unpack import unpack as unpack
from bload.batch.walk import RecurrentPart as RecurrentPart
from bload.batch.walk import walk as walk
from bload.batch.walk_order import WalkOrder as WalkOrder
from bload.loading.dataset import BlockDataset as BlockDataset
from bload.loading.dataset import SequenceSource as SequenceSource
from bload.loading.from_dataset import from_dataset as from_dataset
from bload.loading.loader import BlockLoader as BlockLoader
from bload.loading.planner import Planner as Planner
from bload.loading.sampler import BlockSampler as BlockSampler
from bload.loading.stream import StreamBlocks as StreamBlocks
from bload.loading.stream_loader import StreamLoader as StreamLoader

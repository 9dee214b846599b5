"""What a run reads: both splits of its data, and the training split in blocks."""

from dataclasses import dataclass

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.build import build_source, build_yardsticks
from datasets.synthetic.yardsticks import Yardsticks
from experiments.config import TrainJob
from experiments.ranks import Ranks
from experiments.stopping import apart


@dataclass(frozen=True)
class Data:
    """Input of a run: training and test split, and the training split in blocks."""

    source: VideoSource
    test_source: VideoSource
    yardsticks: Yardsticks | None
    loader: BlockLoader


def open_data(cfg: TrainJob, ranks: Ranks) -> Data:
    """Open both splits; one rank makes what has to be made, while the others wait for its lock."""
    source = build_source(cfg.dataset, "train", progress=True)
    test_source = build_source(cfg.dataset, "test", progress=True)
    loader = BlockLoader(
        source,
        cfg.loader.name,
        batch_frames=cfg.train.batch_frames,
        rank=ranks.rank,
        world_size=ranks.world_size,
        seed=cfg.train.seed,
        num_workers=cfg.train.workers,
        timeout=cfg.train.timeout if cfg.train.workers else 0,
        worker_init_fn=apart,
        pin_memory=ranks.device.type == "cuda",
        names=source.videos,
        **cfg.loader.options,
    )
    return Data(source, test_source, build_yardsticks(test_source, cfg.dataset), loader)

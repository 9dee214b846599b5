"""Input of a run: both splits of its data, and the training split in blocks."""

from dataclasses import dataclass
from pathlib import Path

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.build import build_source, build_yardsticks, check_kind
from datasets.synthetic.yardsticks import Yardsticks
from training.config import TrainJob
from training.fit import find_cost
from training.ranks import Ranks
from training.stopping import detach_worker


@dataclass(frozen=True)
class Data:
    """Input of a run: training and test split, and the training split in blocks."""

    source: VideoSource
    test_source: VideoSource
    yardsticks: Yardsticks | None
    loader: BlockLoader


def open_data(cfg: TrainJob, ranks: Ranks, saved: Path | None = None) -> Data:
    """Open both splits; one rank makes missing data, while the others wait for its lock.

    Args:
        saved: file with the fitted cost of the run.

    Raises:
        InputError: the data are of another kind than the config's, or cannot be read.
    """
    with ranks.together():
        check_kind(cfg.dataset)
        source = build_source(cfg.dataset, "train", progress=True)
        test_source = build_source(cfg.dataset, "test", progress=True)
    options = cfg.loader.options
    if "cost" not in options:
        options["cost"] = find_cost(cfg, source, ranks, saved)
    with ranks.together():
        loader = BlockLoader(
            source,
            cfg.loader.name,
            batch_slots=cfg.train.batch_slots,
            micro_batches=cfg.train.micro_batches,
            even=cfg.train.exchange != "none",
            rank=ranks.rank,
            world_size=ranks.world_size,
            seed=cfg.train.seed,
            num_workers=cfg.train.workers,
            timeout=cfg.train.timeout if cfg.train.workers else 0,
            worker_init_fn=detach_worker,
            pin_memory=ranks.device.type == "cuda",
            names=source.videos,
            **options,
        )
        yardsticks = build_yardsticks(test_source, cfg.dataset)
    return Data(source, test_source, yardsticks, loader)

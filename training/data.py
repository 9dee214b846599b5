"""Input of a run: the videos that it trains on, in blocks, and those that it is evaluated on."""

from dataclasses import dataclass
from typing import Any

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.build import build_source, open_to_score, saved_config
from training.config import EvalJob, TrainJob, naming_keys
from training.ranks import Ranks
from training.stopping import detach_worker


@dataclass(frozen=True)
class Data:
    """Input of a run."""

    source: VideoSource
    """Videos to train on; `loader` has them in blocks."""
    loader: BlockLoader
    validation: VideoSource | None
    final: VideoSource


def open_data(cfg: TrainJob, ranks: Ranks) -> Data:
    """Open the videos; one rank makes missing data, while the others wait for its lock.

    Raises:
        InputError: the data cannot be read.
    """
    with ranks.agree_on_errors():
        source = build_source(cfg.dataset, "train")
        validation_split, final_split = cfg.dataset.splits
        validation = open_to_score(cfg.dataset, validation_split) if validation_split else None
        final = open_to_score(cfg.dataset, final_split)
    with ranks.agree_on_errors(), naming_keys(cfg):
        loader = BlockLoader(
            source,
            cfg.loader.name,
            batch_slots=cfg.train.batch_slots,
            micro_batches=cfg.train.micro_batches,
            elastic=cfg.run.resume == "elastic",
            rank=ranks.rank,
            world_size=ranks.world_size,
            seed=cfg.train.seed,
            num_workers=cfg.train.workers,
            timeout=cfg.train.timeout if cfg.train.workers else 0,
            worker_init_fn=detach_worker,
            pin_memory=ranks.device.type == "cuda",
            names=source.names,
            **cfg.loader.options,
        )
    return Data(source, loader, validation, final)


def find_videos(cfg: EvalJob, saved: dict[str, Any], opened: dict[str, VideoSource]) -> VideoSource:
    """Return the videos at `cfg.root`, else those of the model's training; open each only once."""
    dataset = saved_config(saved, cfg.root, cfg.cache)
    key = repr(dataset)
    if key not in opened:
        opened[key] = open_to_score(dataset, cfg.split or dataset.splits[1])
    return opened[key]

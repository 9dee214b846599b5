"""Input of a run: videos to train on, in blocks, and to evaluate on, and their way to a network.

B blocks, T slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bload import Batch, BlockLoader
from datasets.annotations.targets import FrameTargets
from datasets.build import build_source, open_to_score, saved_config
from datasets.letterbox import Letterbox
from datasets.source import VideoSource
from models.network_input import NetworkInput, frame_gaps
from training.config import EvalJob, ProcessConfig, TrainJob, naming_keys
from training.ranks import Ranks, count_cores
from training.stopping import detach_worker


@dataclass(frozen=True)
class Data:
    """Input of a run."""

    train: VideoSource
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
    with ranks.agree_on_errors(), naming_keys(cfg):
        loader = BlockLoader(
            source,
            cfg.loader.name,
            batch_slots=cfg.train.batch_slots,
            micro_batches=cfg.train.micro_batches,
            elastic=cfg.run.resume == "elastic",
            seed=cfg.train.seed,
            names=source.names,
            **process_options(cfg.train, ranks),
            **cfg.loader.options,
        )
    with ranks.agree_on_errors():
        validation_split, final_split = cfg.dataset.evaluation_splits
        validation = open_to_score(cfg.dataset, validation_split) if validation_split else None
        final = open_to_score(cfg.dataset, final_split)
    return Data(source, loader, validation, final)


def process_options(cfg: ProcessConfig, ranks: Ranks) -> dict[str, Any]:
    """Return the options of a `BlockLoader` that depend on this rank and its machine."""
    workers = cfg.workers if cfg.workers >= 0 else min(8, count_cores())
    return {
        "rank": ranks.rank,
        "world_size": ranks.world_size,
        "num_workers": workers,
        "timeout": cfg.timeout if workers else 0,
        "worker_init_fn": detach_worker,
        "pin_memory": ranks.device.type == "cuda",
    }


@dataclass(frozen=True)
class ToInputs:
    """Turns batches into frames as the network takes them, resized on its device."""

    letterbox: Letterbox
    device: torch.device

    def __call__(self, batch: Batch, epoch: int = 0) -> tuple[NetworkInput, Sequence[FrameTargets]]:
        """Return the inputs of a batch, and the targets that fit them."""
        device_batch, extent_BT2 = self.letterbox(batch, self.device, epoch)
        pixels_BTCHW, gap_BT = device_batch.inputs_BT, frame_gaps(batch)
        inputs = NetworkInput(pixels_BTCHW, batch.start_BT, batch.valid_BT, extent_BT2, gap_BT)
        return inputs, device_batch.targets


def find_videos(cfg: EvalJob, saved: dict[str, Any], opened: dict[str, VideoSource]) -> VideoSource:
    """Return the videos at `cfg.root`, else those of the model's training; open each only once."""
    dataset = saved_config(saved, cfg.root, cfg.cache)
    key = repr(dataset)
    if key not in opened:
        opened[key] = open_to_score(dataset, cfg.split or dataset.evaluation_splits[1])
    return opened[key]

"""Input of a run: the videos that it trains on, in blocks, and those that it is evaluated on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bload import BlockLoader
from datasets.action_genome import VideoSource
from datasets.annotations.read import KNOBS_FILE
from datasets.build import build_source, saved_config
from datasets.config import DatasetConfig, SyntheticConfig
from datasets.synthetic.yardsticks import Yardsticks, make_yardsticks
from training.config import EvalJob, TrainJob, naming_keys
from training.folder import read_json
from training.ranks import Ranks
from training.stopping import detach_worker


class Split(NamedTuple):
    """Videos to evaluate on, with yardsticks if they are synthetic."""

    source: VideoSource
    yardsticks: Yardsticks | None


@dataclass(frozen=True)
class Data:
    """Input of a run."""

    source: VideoSource
    """Videos to train on; `loader` has them in blocks."""
    loader: BlockLoader
    validation: Split | None
    final: Split


def open_split(cfg: DatasetConfig, name: str) -> Split:
    """Open the videos of a split; missing synthetic data are made.

    Raises:
        InputError: a frame has no relation, so that it cannot be scored; or as `build_source`.
    """
    source = build_source(cfg, name, progress=True)
    source.check_labelled()
    if not isinstance(cfg, SyntheticConfig):
        return Split(source, None)
    return Split(source, make_yardsticks(source, cfg))


def open_data(cfg: TrainJob, ranks: Ranks) -> Data:
    """Open the videos; one rank makes missing data, while the others wait for its lock.

    Raises:
        InputError: the data cannot be read.
    """
    with ranks.agree_on_errors():
        source = build_source(cfg.dataset, "train", progress=True)
        validation_split, final_split = cfg.dataset.splits
        validation = open_split(cfg.dataset, validation_split) if validation_split else None
        final = open_split(cfg.dataset, final_split)
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
            names=source.videos,
            **cfg.loader.options,
        )
    return Data(source, loader, validation, final)


def find_split(cfg: EvalJob, dataset_config: dict[str, Any], splits: dict[str, Split]) -> Split:
    """Return the data at `cfg.root`, else those of the model's training; open each only once."""
    dataset: DatasetConfig
    if cfg.root and dataset_config["name"] in ("action_genome", "synthetic"):  # either will do
        values = {key: dataset_config[key] for key in ("frame_size", "small_boxes", "validation")}
        values |= {"root": cfg.root, "cache": cfg.cache}
        if (file := Path(cfg.root, KNOBS_FILE)).exists():
            knobs = {key: value for key, value in read_json(file).items() if key != "version"}
            dataset = SyntheticConfig("synthetic", **values, **knobs)
        else:
            dataset = DatasetConfig("action_genome", **values)
    else:
        root = cfg.root or dataset_config["root"]
        dataset = saved_config({**dataset_config, "root": root}, cfg.cache)
    key = repr(dataset)
    if key not in splits:
        splits[key] = open_split(dataset, cfg.split or dataset.splits[1])
    return splits[key]

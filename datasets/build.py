"""From the config of a data set to its source, its letterbox and its yardsticks.

A new data set is a file with two things, and an entry in `DATASETS`: a `DatasetConfig` subclass
with its keys, and a function (config, split, progress) -> `VideoSource`. What needs torch is
imported in the functions, so that configs can be checked without it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bload.errors import InputError
from datasets.config import AugmentConfig, DatasetConfig, SyntheticConfig
from datasets.synthetic.world import World

if TYPE_CHECKING:
    from datasets.action_genome import ActionGenome, VideoSource
    from datasets.letterbox import Letterbox
    from datasets.synthetic.yardsticks import Yardsticks


def action_genome(cfg: DatasetConfig, split: str, progress: bool) -> "ActionGenome":
    """Open an Action Genome root."""
    from datasets.action_genome import ActionGenome

    (height, width), options = cfg.frame_size, {"cache": cfg.cache, "progress": progress}
    return ActionGenome(cfg.root, split, (height, width), small_boxes=cfg.small_boxes, **options)


def synthetic(cfg: SyntheticConfig, split: str, progress: bool) -> "ActionGenome":
    """Open a synthetic root; make it first if it is not there."""
    from datasets.synthetic.writer import ensure

    ensure(cfg.root, progress=progress, **cfg.knobs)
    return action_genome(cfg, split, progress)


DATASETS: dict[str, tuple[type[DatasetConfig], Callable[..., Any]]] = {
    "action_genome": (DatasetConfig, action_genome),
    "synthetic": (SyntheticConfig, synthetic),
}
"""``dataset.name`` -> config class and builder."""


def build_source(cfg: DatasetConfig, split: str, progress: bool = False) -> "VideoSource":
    """Open one split, ``train`` or ``test``, of the data set that a config names.

    With `progress`, bars are shown while data are made or cached. Raises `InputError` for an
    unknown name, and for a root that is missing, broken or made from other values.
    """
    if cfg.name not in DATASETS:
        raise InputError(f"there is no dataset {cfg.name!r}; choose one of {', '.join(DATASETS)}")
    _, build = DATASETS[cfg.name]
    return build(cfg, split, progress)


def train_lengths(cfg: DatasetConfig) -> np.ndarray:
    """Frames of every training video, int64 ``(videos,)``; synthetic data need not be there."""
    if isinstance(cfg, SyntheticConfig):
        return World(**cfg.knobs).lengths("train")
    return build_source(replace(cfg, cache=None), "train").lengths


def build_letterbox(source: "VideoSource", augment: AugmentConfig | None, seed: int) -> "Letterbox":
    """Build what brings training batches of `source` onto the device, augmented by `augment`."""
    from datasets.augmentation import Augmentation
    from datasets.letterbox import Letterbox

    return Letterbox(source, Augmentation(**vars(augment), seed=seed) if augment else None)


def build_yardsticks(source: "VideoSource", cfg: DatasetConfig) -> "Yardsticks | None":
    """Build what the recall on synthetic data is compared with; None for other data."""
    if not isinstance(cfg, SyntheticConfig):
        return None
    from datasets.synthetic.yardsticks import make_yardsticks

    return make_yardsticks(source, World(**cfg.knobs))

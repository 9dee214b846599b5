"""From the flat values of a dataset config to a sequence source."""

from collections.abc import Callable
from dataclasses import asdict, fields

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.augmentation import Augmentation
from datasets.config import AugmentConfig, DatasetConfig, SyntheticConfig
from datasets.letterbox import Letterbox
from datasets.synthetic.world import World
from datasets.synthetic.writer import ensure
from datasets.synthetic.yardsticks import Yardsticks, make_yardsticks


def _action_genome(cfg: DatasetConfig, split: str, progress: bool) -> ActionGenome:
    return ActionGenome(
        cfg.root,
        split,
        (cfg.frame_size[0], cfg.frame_size[1]),
        small_boxes=cfg.small_boxes,
        cache=cfg.cache,
        progress=progress,
    )


def _synthetic(cfg: SyntheticConfig, split: str, progress: bool) -> ActionGenome:
    ensure(cfg.root, progress=progress, **asdict(_world(cfg)))
    return _action_genome(cfg, split, progress)


def _world(cfg: SyntheticConfig) -> World:
    return World(**{knob.name: getattr(cfg, knob.name) for knob in fields(World)})


DATASETS: dict[str, tuple[type[DatasetConfig], Callable[..., ActionGenome]]] = {
    "action_genome": (DatasetConfig, _action_genome),
    "synthetic": (SyntheticConfig, _synthetic),
}


def build_source(cfg: DatasetConfig, split: str, progress: bool = False) -> ActionGenome:
    """One split, ``train`` or ``test``, of the data set that a config names."""
    if cfg.name not in DATASETS:
        raise InputError(f"there is no dataset {cfg.name!r}; choose one of {', '.join(DATASETS)}")
    return DATASETS[cfg.name][1](cfg, split, progress)


def build_letterbox(source: ActionGenome, augment: AugmentConfig | None, seed: int) -> Letterbox:
    """What brings training batches of `source` onto the device, augmented as `augment` says."""
    return Letterbox(source, Augmentation(**asdict(augment or AugmentConfig()), seed=seed))


def build_yardsticks(source: ActionGenome, cfg: DatasetConfig) -> Yardsticks | None:
    """What the recall on `source` is held against, for synthetic data only, else None."""
    return make_yardsticks(source, _world(cfg)) if isinstance(cfg, SyntheticConfig) else None

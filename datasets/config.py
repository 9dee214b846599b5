"""The configs of data sets: every key, its type and its meaning."""

from dataclasses import dataclass, field


@dataclass
class AugmentConfig:
    """Arguments of `datasets.augmentation.Augmentation`; 0 changes nothing."""

    flip: float = 0.0
    jitter: float = 0.0
    hue: float = 0.0
    crop: float = 0.0
    shrink: float = 0.0


@dataclass
class DatasetConfig:
    name: str
    root: str
    frame_size: list[int]  # height and width of the canvas that frames are fitted into
    small_boxes: str = "keep"  # of 16 pixels or less: keep, file (out as published) or computed
    cache: str | None = None  # folder for resized frames: filled by the first run, then read
    augment: AugmentConfig | None = field(default_factory=AugmentConfig)  # null: none


@dataclass(kw_only=True)
class SyntheticConfig(DatasetConfig):
    """See `datasets.synthetic.world.World`."""

    train_videos: int
    test_videos: int
    image_size: int  # pixels a side, as written to disk
    seed: int
    object_classes: int
    max_objects: int
    cue_rate: float
    dwell: float
    delay_rate: float
    drop_rate: float

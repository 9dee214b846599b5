"""The schemas of the configs: every key, its type and its meaning.

Values stand in `configs/`. A key that is not here is an error, and so is a value of another type.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from bload.errors import InputError
from experiments.padding import check_padding
from experiments.starts import check_starts


@dataclass
class LoaderConfig:
    name: str = MISSING
    t_max: int | None = None  # slots in a block; null: the longest video (clips: the mean length)
    last: str = "fill"  # a last step that is not full: fill it with empty blocks, or drop it


@dataclass
class NaiveConfig(LoaderConfig):
    long: str = "error"  # a video longer than t_max: error, split or truncate


@dataclass
class SamplingConfig(LoaderConfig):
    place: str = "random"  # where a clip begins: random or first
    clips: str = "one"  # clips a video: one or all


@dataclass
class MixConfig(LoaderConfig):
    place: str = "random"


@dataclass
class BloadConfig(LoaderConfig):
    draw: str = "video"  # draw among the videos that fit, or among the lengths
    long: str = "error"


@dataclass
class BloadExactConfig(LoaderConfig):
    long: str = "error"


@dataclass
class AugmentConfig:
    """See `datasets.augmentation.Augmentation`; 0 changes nothing."""

    flip: float = 0.0
    jitter: float = 0.0
    hue: float = 0.0
    crop: float = 0.0
    shrink: float = 0.0


@dataclass
class DatasetConfig:
    name: str = MISSING
    root: str = MISSING
    frame_size: list[int] = MISSING  # height and width of the canvas that frames are fitted into
    small_boxes: str = "keep"  # of 16 pixels or less: keep, file (out as published) or computed
    cache: str | None = None  # folder for resized frames: filled by the first run, then read
    augment: AugmentConfig | None = field(default_factory=AugmentConfig)  # null: none


@dataclass
class SyntheticConfig(DatasetConfig):
    train_videos: int = MISSING
    test_videos: int = MISSING
    image_size: int = MISSING  # pixels a side, as written to disk
    seed: int = MISSING
    object_classes: int = MISSING
    max_objects: int = MISSING
    cue_rate: float = MISSING
    dwell: float = MISSING
    delay_rate: float = MISSING
    drop_rate: float = MISSING


@dataclass
class ModelConfig:
    """See `models.dds.DDS`; those of `NOT_COMPUTED` are not its arguments."""

    name: str = MISSING
    weights: str | None = None  # a file, a URL, resnet50 or resnet18: see models/weights.py
    checkpoint: str = "none"  # recompute activations: none, backbone (and encoder), auto: if short
    backbone: str = MISSING
    temporal: str = MISSING  # dds, gru, attention, scan or none: see models/temporal/__init__.py
    time: str = "none"  # what it is told of the time between frames: none, or gap
    width: int = MISSING
    heads: int = MISSING
    feedforward: int = MISSING
    encoder_layers: int = MISSING
    decoder_layers: int = MISSING
    temporal_layers: int = MISSING
    queries: int = MISSING
    dropout: float = MISSING
    norm_first: bool = MISSING
    anchored: bool = MISSING
    dense: bool = MISSING


NOT_COMPUTED = ("weights", "checkpoint")
"""Keys of a model config that do not say what the model computes: how it begins, what it keeps."""


@dataclass
class LossConfig:
    """See `models.criterion.Criterion`."""

    relations_on: str = "matched"
    relation_weight: float = MISSING
    match_boxes: str = MISSING


@dataclass
class TrainConfig:
    epochs: int = MISSING
    slots: int | None = None  # slots to train on in all, padding included, instead of epochs
    batch_frames: int = MISSING  # frames a rank works through in a step
    lr: float = MISSING
    backbone_lr: float = MISSING
    weight_decay: float = MISSING
    clip_norm: float = MISSING
    bptt: int | None = None  # slots that a gradient goes back through time; null: the whole block
    ema: float = 0.0  # decay of an average of the weights over steps, which is evaluated; 0: none
    schedule: str = MISSING  # cosine or step
    step_at: float = MISSING  # schedule=step: share of training after which the rate is a tenth
    warmup_epochs: float = MISSING
    seed: int = 0
    starts: str = "table"  # where states are cleared: table, ignored or wrong (bload/starts.py)
    padding: str = "masked"  # or repeated: the last frame again, trained on (bload/padding.py)
    amp: str = "auto"  # auto: bf16 where the GPU has it; or bf16, off
    device: str = "auto"  # auto, cpu or cuda
    workers: int = 1  # reading processes a rank
    eval_every: int = 0  # epochs between evaluations; 0: only after the last
    checkpoint_every: int = 100  # steps between checkpoints inside an epoch
    log_every: int = 20  # steps between lines in metrics.jsonl


@dataclass
class RunConfig:
    root: str = "runs"
    name: str | None = None  # null: made from the config, so that the same config is the same run
    resume: str = "auto"  # auto: go on where the run stopped; never: start anew; or a checkpoint


@dataclass
class LaunchConfig:
    nproc: int = 1  # ranks that `python train.py` starts on this machine; torchrun starts its own


@dataclass
class ExperimentConfig:
    name: str | None = None  # of a file in configs/experiment, whose runs share a folder
    kind: str = "train"  # what a job does: train, deadlock or length_variance


@dataclass
class DeadlockConfig(ExperimentConfig):
    """See `experiments.deadlock.run`."""

    videos: int = MISSING
    clip: int = MISSING  # frames a step without blocks
    batch_frames: int = MISSING  # frames a rank works through in a step with blocks
    timeout: float = MISSING  # seconds that a rank waits for the other
    seed: int = 0


@dataclass
class LengthVarianceConfig(ExperimentConfig):
    """See `experiments.length_variance.run`. The first three go together."""

    longest: list[int] = MISSING
    sequences: list[int] = MISSING
    rows: list[int] = MISSING  # blocks of the longest in a step
    parts: list[int] = MISSING  # T_max = longest / part, for the last spread
    seed: int = 0


@dataclass
class WandbConfig:
    mode: str = "offline"  # offline, online or disabled
    project: str = "bload"
    group: str | None = None


@dataclass
class TrainJob:
    loader: LoaderConfig = field(default_factory=LoaderConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    run: RunConfig = field(default_factory=RunConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)
    experiment: ExperimentConfig = field(default_factory=ExperimentConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)


@dataclass
class EvalJob:
    checkpoint: str = MISSING  # a file, the folder of a run, or a folder of runs or checkpoints
    split: str = "test"
    starts: str | None = None  # table, ignored or wrong; null: as the model was trained
    root: str | None = None  # data root; null: the one the model was trained on
    batch_frames: int = 1024  # frames a rank works through at a time
    iou: str = "inclusive"  # STTran's inclusive pixels, or continuous
    amp: str = "auto"
    device: str = "auto"
    workers: int = 1
    out: str | None = None  # json file for the figures; of several checkpoints by their names
    pictures: int = 0  # videos to draw, spread over the split
    pictures_dir: str | None = None  # null: beside the checkpoint
    predictions: str | None = None  # Parquet file for the predictions of every frame
    relations: str | None = None  # csv file for the recall of every relation and group


def register() -> None:
    """Make the schemas known to Hydra; the configs name them in their defaults lists."""
    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainJob)
    store.store(name="eval_schema", node=EvalJob)
    for name, node in (
        ("naive", NaiveConfig),
        ("sampling", SamplingConfig),
        ("mix", MixConfig),
        ("bload", BloadConfig),
        ("bload_exact", BloadExactConfig),
    ):
        store.store(group="loader", name=f"{name}_schema", node=node)
    store.store(group="experiment", name="deadlock_schema", node=DeadlockConfig)
    store.store(group="experiment", name="length_variance_schema", node=LengthVarianceConfig)
    store.store(group="dataset", name="action_genome_schema", node=DatasetConfig)
    store.store(group="dataset", name="synthetic_schema", node=SyntheticConfig)


def plain(config: DictConfig) -> dict[str, Any]:
    """A config as plain values, for functions that take flat arguments."""
    return OmegaConf.to_container(config, resolve=True)


def check_values(config: dict[str, Any]) -> None:
    """Refuse values of the right type that nothing later would refuse before files are written."""
    least = {
        "train": {"epochs": 1, "workers": 0, "log_every": 1, "checkpoint_every": 1}
        | {"lr": 0, "backbone_lr": 0, "weight_decay": 0, "warmup_epochs": 0},
        "model": {"width": 4, "heads": 1, "feedforward": 1, "queries": 1}
        | {"encoder_layers": 1, "decoder_layers": 1, "temporal_layers": 1, "dropout": 0},
    }
    for group, keys in least.items():
        for key, bound in keys.items():
            value = config[group][key]
            if value < bound:
                raise InputError(f"{group}.{key} is {value}; give at least {bound}")
    if config["launch"]["nproc"] < 1:
        raise InputError(f"launch.nproc is {config['launch']['nproc']}; give at least 1")
    if config["train"]["clip_norm"] <= 0:
        raise InputError(f"train.clip_norm is {config['train']['clip_norm']}; give more than 0")
    if config["model"]["dropout"] >= 1:
        raise InputError(f"model.dropout is {config['model']['dropout']}; give less than 1")
    slots = config["train"]["slots"]
    if slots is not None and slots < 1:
        raise InputError(f"train.slots is {slots}; give at least 1, or null to go by train.epochs")
    check_starts(config["train"]["starts"])
    check_padding(config["train"]["padding"])
    choice = config["model"]["checkpoint"]
    if choice not in ("none", "backbone", "auto"):
        raise InputError(f"model.checkpoint is {choice!r}; choose none, backbone or auto")
    if not 0 <= config["train"]["ema"] < 1:
        raise InputError(f"train.ema is {config['train']['ema']}; give a decay of 0 to below 1")
    bptt = config["train"]["bptt"]
    if bptt is not None and bptt < 1:
        raise InputError(f"train.bptt is {bptt}; give at least 1 slot, or null for the whole block")
    mode = config["wandb"]["mode"]
    if mode not in ("offline", "online", "disabled"):
        raise InputError(f"wandb.mode is {mode!r}; choose offline, online or disabled")


def without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    """`values` less some keys."""
    return {key: value for key, value in values.items() if key not in keys}

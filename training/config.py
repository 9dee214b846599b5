"""The configs of training and evaluation: every key, its type and its meaning.

Values are in `configs/`. An unknown key is an error, and so is a value of another type.
Configs are dataclasses that check their values; `training.jobs` makes one from a command line.
A key with the metadata ``"defining": False`` does not change what is trained: it is not part of a
run's name, and may differ when the run resumes. A new key without it renames all runs.
The keys of the groups `dataset`, `model` and `loss` are in datasets/config.py and
models/config.py; those of a loader are the options of its packer.
"""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bload.errors import InputError, check_choice, check_number
from bload.packing.packers import PACKERS
from datasets.build import DATASETS
from datasets.config import DatasetConfig
from datasets.machine import worker_count
from datasets.scoring.iou import CONVENTIONS
from datasets.synthetic.world import SPLITS
from models.config import LossConfig, ModelConfig
from training.loader_config import LoaderConfig, loader_schema

AMPS, DEVICES = ("auto", "bf16", "off"), ("auto", "cpu", "cuda")
SCHEDULES, EXCHANGES = ("cosine", "step"), ("none", "frames")
STARTS, PADDINGS = ("table", "ignored", "wrong"), ("masked", "repeated")
SYNC_NAMES = ("allreduce", "local", "gossip", "none")
TIMEOUT = 600.0
"""Default number of seconds that a rank waits for the others, or for data."""
MOST = 10**9
"""Upper bound of counts that have no natural one."""
CONFIGS = Path(__file__).parents[1] / "configs"


@dataclass
class TrainConfig:
    epochs: int  # passes over the training videos
    batch_slots: int  # slots of a rank's batch, padding included
    lr: float  # peak learning rate of AdamW
    backbone_lr: float  # the same for the backbone
    weight_decay: float  # of matrices only
    clip_norm: float  # a step's gradient is scaled down to this norm at most
    schedule: str  # cosine or step
    step_at: float  # schedule=step: part of training before the rate drops to a tenth
    warmup_epochs: float  # epochs in which the rate rises from 0, with a fraction
    # Muon's rate, for the matrices of transformer layers; null: AdamW trains them too
    muon_lr: float | None = field(default=None)
    # batches per rank and step; their gradients add up
    micro_batches: int = field(default=1, metadata={"defining": False})
    # work that ranks share equally: none, or frames
    exchange: str = field(default="none")
    slots: int | None = None  # total slots to train on, padding included; replaces epochs
    bptt: int | None = None  # slots of back-propagation through time; null: the whole block
    ema: float = 0.0  # decay of a moving average of the weights, which is evaluated; 0: none
    seed: int = 0  # for weights, packing and augmentation
    starts: str = "table"  # where states are cleared: table; for ablations ignored or wrong
    padding: str = "masked"  # masked: no loss; repeated: copies of the last frame, trained on
    amp: str = "auto"  # auto (bf16 if the GPU supports it), bf16 or off
    # auto (a GPU if there is one), cpu or cuda
    device: str = field(default="auto", metadata={"defining": False})
    # bitwise reproducible on one machine by torch's deterministic algorithms, slower on GPUs
    deterministic: bool = field(default=False, metadata={"defining": False})
    # seconds that a rank waits for the others, or for data, before it fails
    timeout: float = field(default=TIMEOUT, metadata={"defining": False})
    # data workers per rank; -1: one per core, shared by this machine's ranks, at most 8 each
    workers: int = field(default=1, metadata={"defining": False})
    # epochs between evaluations on validation videos, if there are any; 0: only after the last
    eval_every: int = 0
    # evaluations per epoch, evenly spaced; 0: as eval_every says
    evals_per_epoch: int = field(default=0)
    # how ranks agree on weights: allreduce averages gradients; local (over all ranks) and gossip
    # (over neighbours) average weights; none
    sync: str = field(default="allreduce")
    sync_every: int = field(default=8)  # sync=local: steps between averages
    # minutes between checkpoints inside an epoch; 0: one after every step
    checkpoint_minutes: float = field(default=10.0, metadata={"defining": False})
    # steps between lines in metrics.jsonl and, without a terminal, on standard output
    log_every: int = field(default=20, metadata={"defining": False})

    def __post_init__(self) -> None:
        bounds: dict[str, tuple[float, float | None]] = {
            **dict.fromkeys(
                ("lr", "backbone_lr", "muon_lr", "weight_decay", "warmup_epochs"), (0, None)
            ),
            **dict.fromkeys(("eval_every", "evals_per_epoch"), (0, MOST)),
            **dict.fromkeys(("log_every", "bptt", "sync_every"), (1, MOST)),
            "micro_batches": (1, 10**6),
            "checkpoint_minutes": (0, None),
            **{"epochs": (1, 10**6), "slots": (1, 10**15), "batch_slots": (1, 10**7)},
            **{"seed": (0, 2**63 - 1), "workers": (-1, 256), "timeout": (1, 10**6)},
            **{"clip_norm": (1e-9, None), "ema": (0, 0.999999), "step_at": (0, 1)},
        }
        for key, (least, most) in bounds.items():
            if getattr(self, key) is not None:
                null = key in ("slots", "bptt", "muon_lr")
                check_number(f"train.{key}", getattr(self, key), least, most, null)
        self.workers = worker_count(self.workers)
        check_choice("train.schedule", self.schedule, SCHEDULES)
        check_choice("train.amp", self.amp, AMPS)
        check_choice("train.device", self.device, DEVICES)
        check_choice("train.starts", self.starts, STARTS)
        check_choice("train.padding", self.padding, PADDINGS)
        check_choice("train.exchange", self.exchange, EXCHANGES)
        check_choice("train.sync", self.sync, SYNC_NAMES)

    def evaluates(self, epoch: int, step: int, steps: int) -> bool:
        """True if an evaluation is due after `epoch` epochs and `step` of `steps` steps."""
        count = self.evals_per_epoch
        if step:
            return step < steps and step * count // steps > (step - 1) * count // steps
        every = 1 if count else self.eval_every
        return epoch > 0 and (epoch == self.epochs or (every > 0 and epoch % every == 0))

    def for_slots(self, slots_per_epoch: int) -> "TrainConfig":
        """Return this config with the whole number of epochs, at least 1, nearest to ``slots``.

        The warm-up keeps its share of training. Without ``slots`` nothing changes.

        Args:
            slots_per_epoch: over all ranks, padding and fillers included.
        """
        if self.slots is None:
            return self
        epochs = max(1, round(self.slots / slots_per_epoch))
        return replace(self, epochs=epochs, warmup_epochs=self.warmup_epochs * epochs / self.epochs)


NAME = r"\w[\w.,+=@-]*"


@dataclass
class RunConfig:
    root: str = "runs"  # folder that holds the folders of runs
    name: str | None = None  # null: derived from the config, so that equal configs are one run
    resume: str = "auto"  # auto: resume if it has begun; never: start anew; or a checkpoint

    def __post_init__(self) -> None:
        if not self.root:
            raise InputError("run.root is ''; give a folder for runs, or . for the current one")
        name = self.name
        if name is not None and not (re.fullmatch(NAME, name) and len(name.encode()) <= 200):
            raise InputError(
                f"run.name is {name!r}; give the name of a folder in run.root: up to 200 bytes of "
                "letters, digits and -_.,+=@, from a letter or digit on"
            )


@dataclass
class ExperimentConfig:
    name: str | None = None  # file in configs/experiment; its runs share a folder


@dataclass
class WandbConfig:
    # offline, online or disabled; null: WANDB_MODE, else offline
    mode: str | None = None
    project: str | None = None  # null: WANDB_PROJECT, else bload
    group: str | None = None  # group of runs in wandb; null: WANDB_RUN_GROUP

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_choice("wandb.mode", self.mode, ("offline", "online", "disabled"))


@dataclass
class TrainJob:
    """Config of a training job; its last three groups do not change what is trained."""

    loader: LoaderConfig  # how videos are packed into blocks, and blocks dealt to ranks
    dataset: DatasetConfig  # videos to train, validate and evaluate on
    model: ModelConfig  # the network
    loss: LossConfig  # the losses
    train: TrainConfig  # length, rates, ranks, devices, checkpoints
    # folder and name of the run
    run: RunConfig = field(default_factory=RunConfig, metadata={"defining": False})
    # a set of runs in configs/experiment; NAME_quick is the short form of NAME
    experiment: ExperimentConfig = field(
        default_factory=ExperimentConfig, metadata={"defining": False}
    )
    # copy of the figures in wandb, see docs/tracking.md
    wandb: WandbConfig = field(default_factory=WandbConfig, metadata={"defining": False})

    def __post_init__(self) -> None:
        if self.train.padding == "repeated" and self.loader.options.get("long") == "carry":
            raise InputError(
                "train.padding=repeated fills up blocks, and rows of loader.long=carry have none "
                "of their own; set train.padding=masked"
            )
        if self.train.exchange == "none":
            return
        if self.loader.balance == "counts":
            raise InputError(
                "train.exchange=frames takes as many batches on every rank, and "
                "loader.balance=counts does not; choose another or set train.exchange=none"
            )
        if self.train.sync != "allreduce":
            raise InputError(
                "train.exchange=frames needs ranks with equal weights, and under "
                f"train.sync={self.train.sync} they differ; set train.sync=allreduce"
            )


@dataclass
class EvalJob:
    checkpoint: str = ""  # a file, the folder of a run, or a folder of runs or checkpoints
    # train, test, validation or final; null: final, or test if the data have no such split
    split: str | None = None
    starts: str | None = None  # table, ignored or wrong; null: as the model was trained
    root: str | None = None  # data root; null: that of the training data
    cache: str | None = None  # folder for resized frames, as dataset.cache in training
    batch_slots: int = 1024  # slots of a rank's batch
    iou: str = "inclusive"  # STTran's inclusive pixels, or continuous
    amp: str = "auto"  # auto (bf16 if the GPU supports it), bf16 or off
    device: str = "auto"  # auto (a GPU if there is one), cpu or cuda
    timeout: float = TIMEOUT  # seconds that a rank waits for the others, or for data
    # data workers per rank; -1: one per core, shared by this machine's ranks, at most 8 each
    workers: int = 1
    # JSON file for the figures, by name of the checkpoint if there are several
    out: str | None = None
    pictures: int = 0  # videos to draw, spread over the split
    pictures_dir: str | None = None  # null: beside the checkpoint
    predictions: str | None = None  # Parquet file for the predictions of every frame
    relations: str | None = None  # csv file for the recall of every relation and group

    def __post_init__(self) -> None:
        if not self.checkpoint:
            raise InputError(
                "checkpoint is empty; give checkpoint=runs/NAME, a .pt file or a folder of runs"
            )
        if self.starts is not None:
            check_choice("starts", self.starts, STARTS)
        if self.split is not None:
            check_choice("split", self.split, SPLITS)
        check_choice("iou", self.iou, CONVENTIONS)
        check_choice("amp", self.amp, AMPS)
        check_choice("device", self.device, DEVICES)
        check_number("batch_slots", self.batch_slots, 1, 10**7)
        check_number("workers", self.workers, -1, 256)
        self.workers = worker_count(self.workers)
        check_number("timeout", self.timeout, 1, 10**6)
        check_number("pictures", self.pictures, 0, MOST)


def register() -> None:
    """Register the schemas with Hydra; the configs name them in their defaults lists.

    A packer or data set added to its dict from outside gets its schema here too, and a config if
    configs/ has no file for it.
    """
    from hydra.core.config_store import ConfigStore  # here, as the GPU benchmark has no Hydra
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    store.store(name="train_schema", node=TrainJob)
    store.store(name="eval_schema", node=EvalJob)
    schemas: list[tuple[str, str, Any]] = [
        *(("loader", name, loader_schema(name)) for name in PACKERS),
        *(("dataset", name, schema) for name, (schema, _) in DATASETS.items()),
    ]
    for group, name, schema in schemas:
        store.store(group=group, name=f"{name}_schema", node=schema)
        if not (CONFIGS / group / f"{name}.yaml").exists():
            node = OmegaConf.structured(schema)
            node.name = name
            store.store(group=group, name=name, node=node)


def compose_job(name: str, overrides: Sequence[str]) -> Any:
    """Return the `TrainJob` or `EvalJob` of a command line, outside of Hydra."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    register()
    inside = GlobalHydra.instance().is_initialized()  # in a job that Hydra runs
    with nullcontext() if inside else initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return OmegaConf.to_object(compose(name, list(overrides)))

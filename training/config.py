"""The configs of training and evaluation: every key, its type and its meaning.

Configs are dataclasses that check their values; `training.compose` makes them from a command line.
Files in `configs/` set keys without a default, and others where a value differs from it.
Keys of the groups `dataset`, `model` and `loss` are in datasets/config.py and models/config.py.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from multiprocessing import get_start_method
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bload.errors import InputError
from bload.packing.cost import Cost
from bload.packing.packers import find_packer
from bload.schedule.balance import BALANCES
from datasets.config import DatasetConfig
from datasets.config_fields import Checked, choice, key, number
from datasets.scoring.ranking import BORDERS
from datasets.synthetic.world import SPLITS
from models.config import LossConfig, ModelConfig

STARTS = ("table", "ignored", "wrong")
CONFIGS = Path(__file__).parents[1] / "configs"


@dataclass
class CostConfig(Checked):
    """Weights of a `bload.Cost`, for ``loader.balance``."""

    prefix = "loader.cost."

    slot: float = number(0, None, "weight of a slot, of padding too", 1.0)
    frame: float = number(0, None, "of a frame", 0.0)
    pair: float = number(0, None, "of a pair of frames of one video", 0.0)
    walk: float = number(0, None, "of a time step, for any number of blocks", 0.0)
    launch: float = number(0, None, "of a batch", 0.0)


@dataclass
class LoaderConfig(Checked):
    """Keys of every loader; `loader_schema` adds the options of its packer."""

    prefix = "loader."

    name: str = key("the packer")
    t_max: int | None = number(
        1, 2**16, "slots per block; null: the longest video (clips: the mean length)", None
    )
    last: str = choice(("fill", "drop"), "what is done with an incomplete last step", "fill")
    balance: str = choice(BALANCES, "how blocks are assigned to steps and ranks", "none")
    cost: CostConfig = key("weights of a block, for loader.balance", factory=CostConfig)
    block_sizes: Any = key("block sizes, such as [94,47], or how many sizes to choose", 1)

    @property
    def options(self) -> dict[str, Any]:
        """Options of `bload.BlockLoader`: all keys but the name."""
        values = {name: value for name, value in vars(self).items() if name != "name"}
        return values | {"cost": Cost(**vars(self.cost))}

    def __reduce__(self):  # the class is made from a packer, so pickle would not find it
        return _unpickled, (vars(self),)


def _unpickled(values: dict[str, Any]) -> LoaderConfig:
    return loader_schema(values["name"])(**values)


@cache
def loader_schema(packer: str) -> type[LoaderConfig]:
    """Return the config class of a loader: `LoaderConfig` and the options of its packer."""
    pack, options = find_packer(packer).pack, []
    hints = get_type_hints(pack)
    words = f"see python -m pydoc {pack.__module__}"
    for name, default in find_packer(packer).options.items():
        if name == "batch_slots":  # in train
            continue
        names = [value for value in get_args(hints.get(name)) if isinstance(value, str)]
        kind = "true or false" if isinstance(default, bool) else "a number"
        declared = choice(names, words, default) if names else key(f"{kind}: {words}", default)
        options.append((name, Any if default is None else type(default), declared))
    return make_dataclass(f"{packer}_config", options, bases=(LoaderConfig,))


@dataclass(kw_only=True)
class ProcessConfig(Checked):
    """Precision, device and workers of a rank."""

    amp: str = choice(("auto", "bf16", "off"), "precision; auto: bf16 if the GPU has it", "auto")
    device: str = choice(("auto", "cpu", "cuda"), "auto: a GPU if any", "auto", defining=False)
    timeout: float = number(
        1, 10**6, "seconds that a rank waits for others, or for data", 600.0, defining=False
    )
    workers: int = number(
        -1, 256, "data workers per rank; -1: a core each, at most 8 per rank", 1, defining=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workers and get_start_method(allow_none=True) == "loky":
            raise InputError(f"joblib's processes have no data workers; set {self.prefix}workers=0")


@dataclass
class TrainConfig(ProcessConfig):
    """Length, rates, ranks, devices, checkpoints."""

    prefix = "train."

    epochs: int = number(1, 10**6, "passes over the training videos, unless train.slots says")
    batch_slots: int = number(1, 10**7, "most slots in a rank's batch: whole blocks, at least one")
    lr: float = number(0, 1e6, "peak learning rate of AdamW")
    backbone_lr: float = number(0, 1e6, "peak learning rate of the backbone")
    weight_decay: float = number(0, 1e6, "of matrices, but not of embeddings")
    clip_norm: float = number(1e-9, None, "a step's gradient is scaled down to this norm at most")
    schedule: str = choice(
        ("cosine", "step"), "how rates fall: to 0 in the last step, or to a tenth after step_at"
    )
    step_at: float = number(0, 1, "schedule=step: share of training before the rate drops")
    warmup_epochs: float = number(0, None, "epochs in which the rate rises from 0")
    muon_lr: float | None = number(
        0, 1e6, "Muon's rate, for the matrices of transformer layers; null: AdamW for all", None
    )
    micro_batches: int = number(
        1, 10**6, "batches per rank and step; their gradients add up", 1, defining=False
    )
    exchange: str = choice(("none", "frames"), "work that ranks share equally", "none")
    slots: int | None = number(1, 10**15, "slots to train on, in the nearest whole epochs", None)
    ema: float = number(
        0, 0.999999, "decay of a moving average of the weights, which is evaluated; 0: none", 0.0
    )
    seed: int = number(0, 2**63 - 1, "for weights, packing, augmentation and dropout", 0)
    starts: str = choice(
        STARTS, "where states are cleared; ignored and wrong are to compare", "table"
    )
    padding: str = choice(
        ("masked", "repeated"), "what padding is; repeated: the last frame, to train on", "masked"
    )
    cuda_graph: str = choice(
        ("auto", "off"), "auto records steps; not yet run on a GPU", "off", defining=False
    )
    deterministic: bool = key("the same bits on one machine; slower", False, defining=False)
    eval_every: float = number(
        0, None, "epochs between evaluations on validation videos, as 0.25; 0: at the end", 0.0
    )
    sync: str = choice(
        ("allreduce", "local", "gossip", "none"),
        "how ranks agree; allreduce on gradients, others on weights",
        "allreduce",
    )
    sync_every: int = number(1, None, "sync=local: steps between averages", 8)
    checkpoint_minutes: float = number(
        0, None, "minutes between checkpoints in an epoch; 0: every step", 10.0, defining=False
    )
    log_every: int = number(1, None, "steps between lines in metrics.jsonl", 20, defining=False)


@dataclass
class RunConfig(Checked):
    """Folder and name of a run, and whether it resumes."""

    prefix = "run."

    root: str = key("folder that holds the folders of runs", "runs")
    name: str | None = key("null: from the config, so that equal configs are one run", None)
    resume: str = choice(
        ("auto", "elastic", "never"), "go on, on other ranks too, or start anew", "auto"
    )


@dataclass
class ExperimentConfig(Checked):
    """Set of runs that a run belongs to."""

    prefix = "experiment."

    name: str | None = key("file in configs/experiment; its runs share a folder", None)
    suffix: str = key("after the name, in folder and group; size=quick sets _quick", "")
    rates: dict[str, float] = key("values of train.lr, for ${experiment.rates.NAME}", factory=dict)


@dataclass
class WandbConfig(Checked):
    """Copy of a run's figures in wandb."""

    prefix = "wandb."

    mode: str | None = choice(
        ("offline", "online", "disabled"), "what wandb does; null: WANDB_MODE, else offline", None
    )
    project: str | None = key("null: WANDB_PROJECT, else bload", None)
    group: str | None = key("of runs in wandb; null: WANDB_RUN_GROUP", None)


@dataclass
class TrainJob:
    """Config of a training job; its last three groups are not part of a run's name."""

    loader: LoaderConfig  # how videos are packed into blocks, and blocks dealt to ranks
    dataset: DatasetConfig  # videos to train, validate and evaluate on
    model: ModelConfig  # the network
    loss: LossConfig  # the losses
    train: TrainConfig  # length, rates, ranks, devices, checkpoints
    run: RunConfig = field(default_factory=RunConfig, metadata={"defining": False})
    # a set of runs in configs/experiment; size=quick takes its short form
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
        is_even = self.loader.balance != "uneven" and self.train.sync == "allreduce"
        if self.train.exchange == "frames" and not is_even:
            raise InputError(
                "train.exchange=frames needs equal weights and as many batches on every rank; set "
                "train.sync=allreduce and another loader.balance than uneven"
            )


@contextmanager
def naming_keys(cfg: TrainJob) -> Iterator[None]:
    """Give the library's options their groups in what it refuses in the body."""
    groups = {item.name: part.prefix for part in (cfg.loader, cfg.train) for item in fields(part)}
    try:
        yield
    except InputError as error:
        sentence = str(error).replace("elastic=True", "run.resume=elastic")
        sentence = sentence.replace("packer=", "loader=")
        options = r"(?<![./\w-])(\w+_\w+|\w+(?==)|^\w+(?= is))"  # t_max, last=; not in a path
        words = re.sub(options, lambda option: groups.get(option[1], "") + option[1], sentence)
        raise type(error)(words) from error


@dataclass
class EvalJob(ProcessConfig):
    """Config of an evaluation: its checkpoints, its data, its outputs."""

    checkpoint: str = key("a file, the folder of a run, or a folder of runs", "")
    split: str | None = choice(SPLITS, "evaluated videos; null: final, or test without it", None)
    starts: str | None = choice(STARTS, "where states are cleared; null: as in training", None)
    root: str | None = key("data root; null: that of the training data", None)
    cache: str | None = key("folder for resized frames, as dataset.cache in training", None)
    batch_slots: int = number(1, 10**7, "slots of a rank's batch", 1024)
    iou: str = choice(tuple(BORDERS), "pixels of boxes; inclusive as in STTran", "inclusive")
    out: str | None = key("JSON file for the figures, by checkpoint if there are several", None)
    pictures: int = number(0, None, "videos to draw, spread over the split", 0)
    predictions: str | None = key("Parquet file for the predictions of every frame", None)
    relations: str | None = key("csv file for the recall of every relation", None)

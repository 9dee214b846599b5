"""Configs drawn at random, through the real `train.py`: each trains, or one sentence refuses it.

They are trained on one rank and on two in turn, and every value on both.

Every key is drawn but for `UNDRAWN`.
"""

import random
import shutil
from dataclasses import asdict, fields
from itertools import combinations
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints
from unittest import mock

import pytest

import train
from bload.errors import InputError
from bload.packing.packers import PACKERS, find_packer
from datasets.annotations.read import OBJECTS_FILE, SMALL_BOXES_FILE
from datasets.config import DatasetConfig
from datasets.synthetic.world import World
from datasets.synthetic.writer import make_if_missing
from models.config import LossConfig, ModelConfig
from tests.training.jobs import one_rank, overrides
from training.compose import compose_job
from training.config import TrainConfig, loader_schema
from training.ranks import Ranks, join_ranks, set_deterministic
from training.report import page

COUNT = 24
CANDIDATES = 30
"""Configs of which the one with most that is new is taken."""
UNDRAWN = {"loader.name", "model.name", "dataset.name"}
UNDRAWN |= {"dataset.root", "dataset.frame_size", "dataset.validation", "train.epochs"}
UNDRAWN |= {"model.backbone", "model.weights"}  # a ResNet takes half a minute
UNDRAWN |= {f"model.{name}" for name in ("width", "heads", "feedforward", "queries")}
UNDRAWN |= {f"model.{part}_layers" for part in ("encoder", "decoder", "temporal")}
UNDRAWN |= {f"train.{key}" for key in ("lr", "backbone_lr", "weight_decay", "clip_norm", "step_at")}
UNDRAWN |= {"train.seed", "train.timeout"}
"""Keys that are not drawn: names, sizes, rates."""
VALUES: dict[str, tuple] = {
    "loader": (*PACKERS, "bload", "bload_exact"),
    "loader.t_max": ("null", 20, 40),
    "loader.cost": ("{}", "{frame:0.1}"),
    "loader.block_sizes": (1, 1, 2, "[38,20]"),
    "loader.buckets": (16, 3),
    "train.batch_slots": (64, 90, 30),
    "train.micro_batches": (1, 2),
    "train.exchange": ("none", "none", "frames"),
    "train.slots": ("null", 120),
    "train.ema": (0, 0.9),
    "train.warmup_epochs": (0, 0.5),
    "train.muon_lr": ("null", 0.001),
    "train.workers": (0, 0, 0, 0, 0, 1),
    "train.eval_every": (0, 1, 0.5),
    "train.sync_every": (8, 2),
    "train.checkpoint_minutes": (10, 0),
    "train.log_every": (20, 1),
    "model.dropout": (0, 0.1),
    "loss.relation_weight": (1, 3),
    "train.device": ("cpu", "auto"),
    "dataset.small_boxes": ("keep", "file"),  # in frames of 32 pixels all boxes are small
    "dataset.cache": ("null", "${dataset.root}/cache"),
    "dataset.augment": ("null", "{flip:0.5,jitter:0.2,crop:0.5,shrink:0.3}"),
}
"""Values of keys, and here also of all that are a choice or a switch."""
OPTIONS: dict[str, set[str]] = {}
"""Options that some packers alone have."""
for packer in PACKERS:
    for option, kind in get_type_hints(find_packer(packer).pack).items():
        if get_origin(kind) is Literal:
            VALUES[f"loader.{option}"] = get_args(kind)
    for option in find_packer(packer).options:
        OPTIONS.setdefault(f"loader.{option}", set()).add(packer)
for schema in (*map(loader_schema, PACKERS), TrainConfig, ModelConfig, LossConfig, DatasetConfig):
    for declared in fields(schema):
        if (name := f"{schema.prefix}{declared.name}") not in {*VALUES, *UNDRAWN}:
            VALUES[name] = (*declared.metadata.get("options", (False, True)),)
            assert "options" in declared.metadata or declared.type is bool, name
EVERY = {(key, str(value)) for key, values in VALUES.items() for value in values}
OWN_SIZES = ("single", "bucket", "ragged")
"""Packers that make batches themselves."""
FEW = World(4, 1, 1, 1, image_size=32, seed=3, drop_rate=0.1)
SMALL = ["train.epochs=1", *(f"dataset.{key}={value}" for key, value in FEW.knobs.items())]
Config = dict[str, str]


def draw(rng: random.Random) -> Config:
    """A config, without most of what would be refused."""
    values = {key: str(rng.choice(values)) for key, values in VALUES.items()}
    packer = values["loader"]
    for key, packers in OPTIONS.items():
        if packer not in packers:
            values.pop(key, None)
    if packer in OWN_SIZES:
        values["loader.block_sizes"] = "1"
    if packer in ("sampling", "mix") and values["loader.block_sizes"].startswith("["):
        values["loader.block_sizes"] = "2"
    if values["loader.block_sizes"].startswith("["):
        values["loader.t_max"] = "null"
    if values.get("loader.long") == "carry":
        values |= {"loader.balance": "none", "loader.block_sizes": "1", "train.padding": "masked"}
        if packer in OWN_SIZES:
            values["loader.long"] = "split"
    if values.get("loader.long") == "error":
        values["loader.t_max"] = "null"
    if values["loader.last"] == "drop":
        values |= {"train.batch_slots": "30", "train.micro_batches": "1"}
    if values["train.exchange"] == "frames":
        values["train.sync"] = "allreduce"
        if values["loader.balance"] == "uneven":
            values["loader.balance"] = "none"
    return values


def pairs(config: Config) -> set:
    return {*combinations(sorted(config.items()), 2)}


@pytest.fixture(scope="module")
def drawn() -> list[tuple[int, Config]]:
    """Ranks and configs that together have every value on one and on two, and most pairs of values.

    New values come first, then new pairs.
    """
    rng, seen = random.Random(1), set()
    configs, values = [], {1: set(), 2: set()}
    for number in range(COUNT):
        had = values[1 + number % 2]
        some = [draw(rng) for _ in range(CANDIDATES)]
        best = max(some, key=lambda c: (len(c.items() - had), len(pairs(c) - seen)))
        configs.append((1 + number % 2, best))
        had.update(best.items())
        seen |= pairs(best)
    return configs


@pytest.fixture
def root(tmp_path) -> Path:
    """A few videos, with a file of small boxes too, which has them all."""
    root = make_if_missing(tmp_path / "root", **asdict(FEW))
    folder = root / "annotations"
    shutil.copy(folder / OBJECTS_FILE, folder / SMALL_BOXES_FILE)
    return root


def outcome(ranks: Ranks, lines: list[str]) -> str:
    """``trained``, or the sentence that refuses these overrides."""
    try:
        cfg = compose_job("train", lines)
        alone = join_ranks(cfg.train.device, cfg.train.timeout, cfg.train.deterministic)
        with mock.patch.object(page, "write_or_warn"):
            summary = train.train(cfg, alone if ranks.world_size == 1 else ranks)
    except InputError as error:
        return str(error)
    finally:  # this process serves other tests too
        set_deterministic(False)
    assert summary["frames"] > 0
    return "trained"


@pytest.mark.slow
@pytest.mark.dist
def test_a_drawn_config_trains_or_is_refused_in_a_sentence(drawn, root, tmp_path, two_ranks):
    trained: dict[int, set] = {1: set(), 2: set()}
    refused = []
    for number, (count, config) in enumerate(drawn):
        more = [f"{key}={value}" for key, value in config.items()]
        lines = overrides(root, tmp_path / f"{number}", *SMALL, *more)
        found = two_ranks.run(outcome, lines) if count == 2 else [outcome(one_rank(), lines)]
        assert len({*found}) == 1, (lines, found)  # all ranks or none
        if found[0] == "trained":
            trained[count].update(config.items())
        else:
            refused.append(found[0])
            assert "\n" not in found[0]
    assert len(refused) < COUNT / 4, refused
    for count in (1, 2):
        assert not EVERY - trained[count], count

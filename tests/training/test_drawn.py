"""Configs drawn at random, through the real `train.py`: each trains, or one sentence refuses it.

Every other one is trained on two ranks.

Every key that changes what is computed is drawn, but for ResNets with their weights (half a minute
each), the sizes of the network and of the data, and rates.
"""

import random
from itertools import combinations
from unittest import mock

import pytest
import torch

import train
from bload.dealing import DEALS
from bload.errors import InputError
from bload.packers import PACKERS
from models.temporal import PARTS
from tests.training.jobs import compose_config, overrides
from training.config import SYNC_NAMES
from training.ranks import Ranks, set_deterministic

COUNT = 60
CANDIDATES = 30
"""Configs of which the one that has most new pairs of values is taken."""
LONG = ("split", "error", "carry", "truncate")
VALUES: dict[str, tuple] = {
    "loader": (*PACKERS, "bload", "bload_exact"),
    "loader.t_max": ("null", 20, 40),
    "loader.last": ("fill", "drop"),
    "loader.deal": ("cards", *DEALS),
    "loader.window": (16, 2),
    "loader.cost": ("slots", "fitted", "[1,0.1]"),
    "loader.shapes": (1, 1, 2, "[45,20]"),
    "loader.ahead": (False, True),
    "loader.long": LONG,
    "loader.draw": ("video", "length"),
    "loader.place": ("random", "fixed", "first"),
    "loader.clips": ("one", "all"),
    "loader.buckets": (16, 3),
    "train.batch_frames": (64, 90, 30),
    "train.micro_batches": (1, 2),
    "train.exchange": ("none", "none", "frames"),
    "train.slots": ("null", 300),
    "train.bptt": ("null", 8),
    "train.ema": (0, 0.9),
    "train.starts": ("table", "ignored", "wrong"),
    "train.padding": ("masked", "repeated"),
    "train.amp": ("off", "auto", "bf16"),
    "train.deterministic": (False, True),
    "train.schedule": ("cosine", "step"),
    "train.warmup_epochs": (0, 0.5),
    "train.muon_lr": ("null", 0.001),
    "train.workers": (0, 0, 0, 0, 0, 1),
    "train.eval_every": (0, 1),
    "train.evals_per_epoch": (0, 0, 2),
    "train.sync": ("allreduce", *SYNC_NAMES),
    "train.sync_every": (8, 2),
    "train.checkpoint_every": (100, 1),
    "train.log_every": (20, 1),
    "model.temporal": (*PARTS,),
    "model.time": ("none", "gap"),
    "model.norm_first": (False, True),
    "model.anchored": (False, True),
    "model.dense": (False, True),
    "model.dropout": (0, 0.1),
    "model.checkpoint": ("none", "backbone", 0.5, "auto", "offload"),
    "model.padding": ("computed", "skipped"),
    "loss.match_boxes": ("worst", "sum"),
    "loss.relation_weight": (1, 3),
    "dataset.augment": ("null", "{flip:0.5,jitter:0.2,crop:0.5,shrink:0.3}"),
}
OPTIONS = {
    "loader.long": {*PACKERS} - {"sampling", "mix"},
    "loader.draw": {"bload"},
    "loader.place": {"sampling", "mix"},
    "loader.clips": {"sampling"},
    "loader.buckets": {"bucket"},
}
"""Options that some packers alone have."""
BETWEEN_RANKS = ("train.sync", "train.exchange", "loader.deal", "train.micro_batches")
"""Keys of which every value trains on two ranks."""
Config = dict[str, str]


def draw(rng: random.Random) -> Config:
    """A config, without most of what would be refused."""
    values = {key: str(rng.choice(values)) for key, values in VALUES.items()}
    packer = values["loader"]
    for key, packers in OPTIONS.items():
        if packer not in packers:
            del values[key]
    if packer in ("single", "bucket", "ragged", "sampling", "mix"):
        values["loader.shapes"] = "1"
    if values["loader.shapes"].startswith("["):
        values["loader.t_max"] = "null"
    if values.get("loader.long") == "carry":
        values |= {"loader.deal": "cards", "loader.shapes": "1", "train.padding": "masked"}
        if packer in ("single", "bucket", "ragged"):
            values["loader.long"] = "split"
    if values.get("loader.long") == "error":
        values["loader.t_max"] = "null"
    if values["loader.last"] == "drop":
        values |= {"train.batch_frames": "30", "train.micro_batches": "1"}
    if values["train.exchange"] == "frames":
        values["train.sync"] = "allreduce"
        if values["loader.deal"] == "counts":
            values["loader.deal"] = "cards"
    return values


def pairs(config: Config) -> set:
    return {*combinations(sorted(config.items()), 2)}


@pytest.fixture(scope="module")
def drawn() -> list[Config]:
    """Configs that together have every value, and most pairs of values."""
    rng, configs, seen = random.Random(1), [], set()
    for _ in range(COUNT):
        some = [draw(rng) for _ in range(CANDIDATES)]
        configs.append(max(some, key=lambda config: len(pairs(config) - seen)))
        seen |= pairs(configs[-1])
    return configs


def outcome(ranks: Ranks, lines: list[str]) -> str:
    """``trained``, or the sentence that refuses these overrides."""
    try:
        cfg = compose_config("train", lines)
        set_deterministic(cfg.train.deterministic)
        with mock.patch.object(train, "write_or_warn"):
            summary = train.train(cfg, ranks)
    except InputError as error:
        return str(error)
    finally:
        set_deterministic(False)
    assert summary["frames"] > 0
    return "trained"


def test_drawn_configs_have_every_value_and_most_pairs(drawn):
    found = {item for config in drawn for item in config.items()}
    assert {(key, str(value)) for key in VALUES for value in VALUES[key]} <= found
    every = {pair for seed in range(2000) for pair in pairs(draw(random.Random(seed)))}
    seen = set().union(*map(pairs, drawn))
    assert len(seen & every) > 0.8 * len(every)


@pytest.mark.slow
@pytest.mark.dist
def test_a_drawn_config_trains_or_is_refused_in_a_sentence(drawn, data_root, tmp_path, two_ranks):
    trained: dict[int, set] = {1: set(), 2: set()}
    refused = []
    for number, config in enumerate(drawn):
        more = [f"{key}={value}" for key, value in config.items()]
        lines = overrides(data_root, tmp_path / f"{number}", *more, "train.epochs=1")
        count = 1 + number % 2
        if count == 1:
            found = [outcome(Ranks(0, 1, torch.device("cpu")), lines)]
        else:
            found = two_ranks.run(outcome, lines, timeout=180)
        assert len({*found}) == 1, (lines, found)  # all ranks or none
        if found[0] == "trained":
            trained[count] |= {*config.items()}
        else:
            refused.append(found[0])
            assert "\n" not in found[0]
    assert len(refused) < COUNT / 4, refused
    for keys, by_count in ((VALUES, trained[1] | trained[2]), (BETWEEN_RANKS, trained[2])):
        assert {(key, str(value)) for key in keys for value in VALUES[key]} <= by_count

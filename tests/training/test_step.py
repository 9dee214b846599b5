"""A step of training, called as train.py calls it."""

import json
import os
from itertools import islice
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from datasets.synthetic.world import World
from tests.training.jobs import one_rank, take_steps
from training.build import open_training
from training.compose import compose_job
from training.data import open_data
from training.figures import EpochSums, epoch_figures, summarise
from training.ranks import Ranks
from training.step import StepPosition, train_step
from training.stopping import AgreedError


def test_an_epochs_figures_are_those_of_its_slowest_rank_and_its_mean_losses(config):
    data = open_data(config("train.epochs=1"), one_rank())
    steps = data.loader.steps
    sums = EpochSums({"loss": 7.0 * steps}, {"seconds": 2.0, "waiting": 0.5})
    figures = epoch_figures(data.loader, sums, one_rank())
    assert figures["loss"] == 7
    assert figures["seconds"] == 2
    assert summarise([figures, figures | {"loss": 9.0}])["loss"] == 9
    with mock.patch.object(Ranks, "gather", return_value=[(2.0, 0.1), (1.0, 0.5)]):
        assert epoch_figures(data.loader, sums, one_rank())["seconds"] == 2


def test_a_gradient_that_is_not_finite_changes_nothing(config):
    cfg = config()
    data = open_data(cfg, one_rank())
    training = open_training(cfg, one_rank(), data)
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    batches = next(data.loader.by_step())
    nan = torch.tensor(float("nan"))
    with (
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", return_value=nan),
        pytest.raises(AgreedError, match=r"nan in epoch 1, step 4.*train\.lr"),
    ):
        train_step(training, batches, StepPosition(0, 3, 4 / 9))
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_resumed_run_has_the_epochs_and_the_average_that_were_saved(config):
    """Slots are the nearest epochs on the ranks that began; an average begins with a step."""
    cfg = config("train.slots=1", "train.ema=0.9")
    data = open_data(cfg, one_rank())
    training = open_training(cfg, one_rank(), data)
    assert training.cfg.train.epochs == 1
    assert open_training(cfg, one_rank(), data, {"epochs": 3}).cfg.train.epochs == 3
    saved = training.state_dict()
    assert "average" not in saved  # the network's weights may be loaded yet
    training.load_state_dict(saved)
    train_step(training, next(data.loader.by_step()), StepPosition(0, 0, 1 / 9))
    assert "average" in training.state_dict()


def test_a_step_draws_its_own_dropout(config):
    cfg = config("model.dropout=0.5", "train.lr=0", "train.backbone_lr=0")
    data = open_data(cfg, one_rank())
    batches = next(data.loader.by_step())

    def loss(rank, step, epoch=0):
        training = open_training(cfg, Ranks(rank, 1, torch.device("cpu")), data)
        figures, _ = train_step(training, batches, StepPosition(epoch, step, epoch + 1 / 9))
        return figures.losses["loss"]

    assert len({loss(0, 0), loss(0, 1), loss(1, 0), loss(0, 0, 1)}) == 4
    assert loss(0, 1) == loss(0, 1)


GOLDEN = json.loads((Path(__file__).parent / "golden" / "losses.json").read_text())
"""Loss and gradient norm of the first 20 steps, by loader, as the first release computed them.

Those of ``muon_steps`` are by the default recipe. With SAME_MACHINE=1, where they were computed on
this machine, they are compared to the bit.
"""


RECIPES = {"steps": ["train.warmup_epochs=1", "train.muon_lr=null"], "muon_steps": []}
"""What is set of the recipe for an entry: AdamW as in the first release, or nothing."""


@pytest.mark.parametrize(("recipe", "loader"), [(r, name) for r in RECIPES for name in GOLDEN[r]])
def test_the_first_losses_of_each_loader_stay_as_they_were(recipe, loader, tmp_path_factory):
    world = World(24, 1, 1, 1, image_size=32, seed=3, drop_rate=0.1)
    knobs = [f"dataset.{k}={v}" for k, v in world.knobs.items()]
    root = tmp_path_factory.getbasetemp() / "golden"
    job = ["train.epochs=6", "train.batch_slots=64", "train.workers=0", "train.device=cpu"]
    job += [*RECIPES[recipe], "model.dropout=0.1", "train.seed=1"]
    job += [f"loader={loader}", f"dataset.root={root}"]
    taken = islice(take_steps(compose_job("train", [*knobs, *job]), one_rank()), 20)
    steps = [(float(np.float32(step.losses["loss"])), step.grad_norm) for step in taken]
    expected = GOLDEN[recipe][loader]
    if os.environ.get("SAME_MACHINE"):  # one thread, see conftest.py
        assert steps == [tuple(step) for step in expected]
    # Other kernels round otherwise, and steps make that more.
    np.testing.assert_allclose(steps[:2], expected[:2], rtol=1e-4)
    np.testing.assert_allclose(steps, expected, rtol=0.02)

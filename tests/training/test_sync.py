"""Ranks that step by themselves: what they share, and what a checkpoint holds of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import train
from bload import InputError
from tests.training.jobs import checkpoint, one_rank, only_run, train_until
from tests.training.test_gradients import double_training
from training.build import open_training
from training.checkpoint import load_model
from training.data import open_data
from training.step import StepPosition, train_step
from training.sync import SYNCS, synchronise


def mixed(ranks, sync, rounds):
    """Parameters of this rank, drawn at first, after each round."""
    torch.manual_seed(ranks.rank)
    linear, found = nn.Linear(7, 3).double(), []
    for _ in range(rounds + 1):
        found.append(torch.cat([p.detach().flatten() for p in linear.parameters()]).numpy().copy())
        synchronise(sync, linear, 1, 1, every=2)
    return found


@pytest.mark.dist
@pytest.mark.parametrize(("sync", "share"), [("gossip", 0), ("local", 0), ("none", 1)])
def test_two_ranks_keep_their_mean_and_approach_it(two_ranks, sync, share):
    values_RSP = torch.tensor(np.array(two_ranks.run(mixed, sync, 2)))  # by rank, then round
    mean_SP = values_RSP.mean(0)
    distance_S = (values_RSP - mean_SP).norm(dim=(0, 2))
    torch.testing.assert_close(mean_SP, mean_SP[:1].expand_as(mean_SP), rtol=0, atol=1e-15)
    assert distance_S[0] > 0.5
    torch.testing.assert_close(distance_S[1], share * distance_S[0], rtol=0, atol=1e-14)


def average_equal_ranks(ranks, config):
    """The largest change that averages of equal ranks make to two fused steps of the network."""
    batches = ranks.gather(next(open_data(config, ranks).loader.by_step()))[0]
    found = []
    for averages in (True, False):
        data = open_data(config, ranks)
        training = open_training(config, ranks, data)
        for step in range(2):
            train_step(training, batches, StepPosition(0, step, (step + 1) / 9))
            if averages:
                synchronise("local", training.model, 1, 1, every=2)
        found.append([p.detach().clone() for p in training.model.parameters()])
    return max((one - other).abs().max().item() for one, other in zip(*found, strict=True))


@pytest.mark.dist
def test_an_average_over_equal_ranks_changes_nothing_to_the_bit(config, two_ranks):
    assert two_ranks.run(average_equal_ranks, config("train.sync=none")) == [0, 0]


def step_in_double(ranks, config):
    """Parameters of this rank after a step of SGD on all videos, in float64."""
    training, batches = double_training(ranks, config)
    rate = torch.optim.SGD(training.model.parameters(), lr=0.1)
    rate.param_groups[0]["base_lr"] = 0.1
    training = replace(training, optimisers=[rate])
    train_step(training, batches, StepPosition(0, 0, 1 / 9))
    return {name: p.detach().numpy().copy() for name, p in training.model.named_parameters()}


@pytest.mark.dist
def test_local_at_every_step_equals_allreduce_for_sgd(config, two_ranks):
    # 6 blocks in batches of 4: rank 1 has two fillers, so dividing by its own counts would differ.
    options = ("train.batch_slots=180", "train.clip_norm=1e9", "train.warmup_epochs=0")
    local = (*options, "train.sync=local", "train.sync_every=1")
    wanted, same = two_ranks.run(step_in_double, config(*options))
    found = two_ranks.run(step_in_double, config(*local))
    alone = two_ranks.run(step_in_double, config(*options, "train.sync=none"))
    assert wanted.keys() == found[0].keys()
    for name, value in wanted.items():
        for other in (same, *found):
            assert abs(other[name] - value).max() < 1e-12, name
    assert max(abs(alone[0][name] - alone[1][name]).max() for name in wanted) > 1e-3


@pytest.mark.dist
def test_a_checkpoint_holds_all_ranks_and_their_mean(config, tmp_path, two_ranks):
    often = ("train.epochs=1", "train.checkpoint_minutes=0")
    options = ("loader=naive", *often, "train.ema=0.5", "train.sync=none")
    two_ranks.run(train_until, config(*options), (0, 3))
    folder = only_run(tmp_path / "runs")
    saved = checkpoint(folder)
    assert saved["loader"]["step"] == 3
    one, other = saved["rank_states"]
    assert one.keys() == other.keys() == {"model", "optimisers", "average"}
    for part in ("model", "average"):
        assert any(not torch.equal(one[part][name], other[part][name]) for name in one[part])
        for name, value in saved[part].items():
            mean = (one[part][name] + other[part][name]) / 2
            torch.testing.assert_close(value, mean, check_dtype=False)
    model, _ = load_model(folder / "last.pt", torch.device("cpu"))
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved["average"][f"module.{name}"])
    job = config(*options, f"run.name={folder.name}", "train.batch_slots=128")
    with pytest.raises(InputError, match="the number of ranks was 2 and is 1"):
        train.train(job, one_rank())


def test_averages_are_due_every_so_many_steps_and_at_the_end(monkeypatch):
    due = []
    monkeypatch.setitem(SYNCS, "local", lambda own_P: due.append(step) or own_P)
    for step in range(1, 11):
        synchronise("local", nn.Linear(1, 1), step, 10, every=4)
    assert due == [4, 8, 10]

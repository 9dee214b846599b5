"""A step of training and an epoch of steps, called as train.py calls them."""

import io
import json
import re
import time
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch

import train
from datasets.synthetic import World
from tests.training.jobs import compose_config, one_rank
from training import step as engine
from training.figures import epoch_figures, summarise
from training.ranks import Ranks, autocast
from training.step import bar_text, seed_step, train_epoch, train_step


def first_steps(cfg, count):
    """Loss and gradient norm of the first steps, taken as train.py takes them."""
    ranks = one_rank()
    data = train.open_data(cfg, ranks)
    training = train.open_training(cfg, ranks, data)
    steps = []
    for epoch in range(cfg.train.epochs):
        data.loader.set_epoch(epoch)
        for step in train_epoch(training, data.loader, epoch, {"seconds": 0.0, "waiting": 0.0}):
            steps.append((float(np.float32(step.losses["loss"])), step.norm))
            if len(steps) == count:
                return steps
    raise AssertionError(f"only {len(steps)} steps")


def test_an_epoch_adds_its_losses_to_the_sums(config):
    cfg = config("train.epochs=1")
    data = train.open_data(cfg, one_rank())
    training = train.open_training(cfg, one_rank(), data)
    sums = {"seconds": 0.0, "waiting": 0.0, "loss": 7.0}
    steps = list(train_epoch(training, data.loader, 0, sums))
    assert len(steps) == data.loader.steps > 1
    assert sums["loss"] == pytest.approx(7 + sum(step.losses["loss"] for step in steps))
    assert 0 < sums["waiting"] < sums["seconds"]
    figures = epoch_figures(data.loader, sums, one_rank())
    assert figures["loss"] == pytest.approx(sums["loss"] / len(steps))
    assert summarise([figures, figures | {"loss": 9.0}])["loss"] == 9
    with mock.patch.object(Ranks, "gather", return_value=[(2.0, 0.1, 0.0), (1.0, 0.5, 0.0)]):
        assert epoch_figures(data.loader, sums, one_rank())["seconds"] == 2  # the slowest rank's
    assert {p.grad is not None for p in training.model.parameters()} == {True}


def test_the_bar_tells_the_time_left_to_the_end_of_the_run():
    says = "loss 12.35, 1,250 frames/s, 03:20 left in all"
    assert bar_text(12.345678, 10_000, 8.0, done=4, ahead=100) == says


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("screen", "seen"), [(Terminal, True), (io.StringIO, False)])
def test_the_bar_is_on_a_terminal_alone(config, monkeypatch, screen, seen):
    cfg = config("train.epochs=3")
    data = train.open_data(cfg, one_rank())
    training = train.open_training(cfg, one_rank(), data)
    monkeypatch.setattr("sys.stderr", written := screen())
    steps = list(train_epoch(training, data.loader, 0, {"seconds": 0.0, "waiting": 0.0}))
    shown = re.findall(
        r"epoch 1/3:.*%.*, loss (\S+), .* frames/s, .* left in all", written.getvalue()
    )
    assert bool(written.getvalue()) == bool(shown) == seen
    assert set(shown) <= {f"{step.losses['loss']:.2f}" for step in steps}


@pytest.mark.parametrize(("screen", "every"), [(io.StringIO, 2), (io.StringIO, 3), (Terminal, 2)])
def test_off_a_terminal_lines_say_what_the_bar_would(config, monkeypatch, capsys, screen, every):
    monkeypatch.setattr("sys.stderr", screen())
    train.train(config("train.epochs=1", f"train.log_every={every}"), one_rank())
    out = capsys.readouterr().out
    text = r"^epoch   1/1  step (\d+)/(\d+)  loss \S+, \S+ frames/s, \S+ left in all$"
    shown = [(int(step), int(steps)) for step, steps in re.findall(text, out, re.M)]
    assert len(re.findall(r"^epoch +\d", out, re.M)) == len(shown) + 1  # that of the epoch
    if screen is Terminal:
        assert not shown
    else:
        steps = shown[0][1]
        assert shown == [(step, steps) for step in range(every, steps, every)]


@pytest.mark.parametrize("first", [True, False])
def test_the_start_of_data_workers_takes_none_of_the_epochs_time(config, monkeypatch, first):
    cfg = config("train.epochs=1", "train.workers=1")
    data = train.open_data(cfg, one_rank())
    training = train.open_training(cfg, one_rank(), data)
    clock, waits = [0.0], chain([100.0], repeat(1.0))
    monkeypatch.setattr(engine, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    by_step = data.loader.by_step

    def slowly():
        for batches, seconds in zip(by_step(), waits, strict=False):
            clock[0] += seconds
            yield batches

    def step(*arguments):
        clock[0] += 0.25
        return train_step(*arguments)

    monkeypatch.setattr(engine, "train_step", step)
    monkeypatch.setattr(data.loader, "by_step", slowly)
    sums = {"seconds": 0.0, "waiting": 0.0}
    steps = list(train_epoch(training, data.loader, 0, sums, first=first))
    assert len(steps) == data.loader.steps
    later = len(steps) - 1
    assert sums["waiting"] == (later if first else later + 100)
    assert sums["seconds"] == sums["waiting"] + 0.25 * len(steps)
    assert sums.get("start", 0.0) == (100 if first else 0)
    monkeypatch.undo()
    assert epoch_figures(data.loader, sums, one_rank())["start_seconds"] == (100 if first else 0)


def sums_beside_a_slow_start(ranks, config, clock):
    """A rank's seconds of an epoch, if the workers of rank 1 need 100 s for their first batch.

    Both ranks tell the time by the size of a file, which only those workers change.
    """
    data = train.open_data(config, ranks)  # without workers, which the test plays
    config.train.workers = 1
    training = train.open_training(config, ranks, data)
    by_step = data.loader.by_step

    def late():
        for step, batches in enumerate(by_step()):  # at first the ranks compare their plans
            if step == 0 and not ranks.is_first:
                time.sleep(1)  # in which rank 0 would begin without the others
                clock.write_bytes(bytes(100))
            yield batches

    reading = SimpleNamespace(perf_counter=lambda: clock.stat().st_size + 1e-6 * time.monotonic())
    sums = {"seconds": 0.0, "waiting": 0.0}
    with (
        mock.patch.object(engine, "time", reading),
        mock.patch.object(data.loader, "by_step", late),
    ):
        ranks.barrier()
        assert list(train_epoch(training, data.loader, 0, sums, first=True))
    return round(sums["start"]), round(sums["seconds"]), round(sums["waiting"])


@pytest.mark.dist
def test_no_rank_starts_its_clock_before_the_workers_of_all_have_started(
    config, tmp_path, two_ranks
):
    (tmp_path / "clock").touch()
    cfg = config("train.epochs=1")
    slow = two_ranks.run(sums_beside_a_slow_start, cfg, tmp_path / "clock")
    assert slow == [(100, 0, 0)] * 2


def test_the_log_of_a_rank_is_sentences_with_time_and_rank(finished):
    lines = (finished / "rank0.log").read_text().splitlines()
    assert len(lines) >= 3
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:]{8},\d{3} rank 0: [A-Z][^{}]+\.", line), line
    assert sum(" Epoch 1 of 1 took " in line for line in lines) == 1


def test_a_gradient_that_is_not_finite_changes_nothing(config):
    cfg = config()
    data = train.open_data(cfg, one_rank())
    training = train.open_training(cfg, one_rank(), data)
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    batches = next(data.loader.by_step())
    nan = torch.tensor(float("nan"))
    with (
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", return_value=nan),
        pytest.raises(ValueError, match=r"nan in epoch 1, step 4.*train\.lr"),
    ):
        train_step(training, batches, 0, 3, 9)
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, before[name])


def test_dropout_differs_between_seeds_epochs_steps_and_ranks():
    def drawn(*place):
        seed_step(*place)
        return tuple(torch.rand(8).tolist())

    places = [(s, e, t, r) for s in (0, 1) for e in (0, 1) for t in (0, 1) for r in (0, 1)]
    assert len({drawn(*place) for place in places}) == len(places)
    assert drawn(0, 1, 1, 0) == drawn(0, 1, 1, 0)


def test_a_step_draws_its_own_dropout(config):
    cfg = config("model.dropout=0.5", "train.lr=0", "train.backbone_lr=0")
    data = train.open_data(cfg, one_rank())
    batches = next(data.loader.by_step())

    def loss(rank, step):
        training = train.open_training(cfg, Ranks(rank, 1, torch.device("cpu")), data)
        return train_step(training, batches, 0, step, 9).losses["loss"]

    assert len({loss(0, 0), loss(0, 1), loss(1, 0)}) == 3
    assert loss(0, 1) == loss(0, 1)


def test_the_seed_changes_the_plan_and_the_initial_weights(config):
    def begin(seed):
        cfg = config(f"train.seed={seed}")
        data = train.open_data(cfg, one_rank())
        weights = train.open_training(cfg, one_rank(), data).model.state_dict()
        return data.loader.plan.sequence.tolist(), weights["relation.weight"]

    (one, weights), (other, others), (again, same) = begin(0), begin(1), begin(0)
    assert one == again != other
    assert torch.equal(weights, same)
    assert not torch.equal(weights, others)


def test_automatic_precision_is_full_on_a_cpu():
    square = torch.randn(4, 4)
    for amp, dtype in (("auto", torch.float32), ("off", torch.float32), ("bf16", torch.bfloat16)):
        with autocast(amp, torch.device("cpu")):
            assert (square @ square).dtype == dtype, amp


GOLDEN = json.loads((Path(__file__).parent / "golden" / "losses.json").read_text())
"""Loss and gradient norm of the first 20 steps, by loader, as the first release computed them.

Those of ``muon_steps`` are by the default recipe.
"""


RECIPES = {"steps": ["train.warmup_epochs=1", "train.muon_lr=null"], "muon_steps": []}
"""What is set of the recipe for an entry: AdamW as in the first release, or nothing."""


@pytest.mark.parametrize(("recipe", "loader"), [(r, name) for r in RECIPES for name in GOLDEN[r]])
def test_the_first_losses_of_each_loader_stay_as_they_were(recipe, loader, tmp_path_factory):
    world = World(train_videos=24, test_videos=2, image_size=32, seed=3, drop_rate=0.1)
    knobs = [f"dataset.{k}={v}" for k, v in world.manifest().items() if k != "version"]
    root = tmp_path_factory.getbasetemp() / "golden"
    job = ["train.epochs=6", "train.batch_frames=64", "train.workers=0", "train.device=cpu"]
    job += [*RECIPES[recipe], "model.dropout=0.1", "train.seed=1"]
    job += [f"loader={loader}", f"dataset.root={root}"]
    steps = first_steps(compose_config("train", [*knobs, *job]), 20)
    here = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
    if here == GOLDEN["made_with"]:  # one thread, see conftest.py
        assert steps == [tuple(step) for step in GOLDEN[recipe][loader]]
    else:  # other kernels round otherwise
        np.testing.assert_allclose(steps, GOLDEN[recipe][loader], rtol=0.02)

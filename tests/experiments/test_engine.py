"""A step of training, called as train.py calls it, in float64 where gradients are compared.

Ranks, padding and packing never change the gradient.
"""

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import train
from bload import BlockLoader
from datasets.build import build_letterbox, build_source
from datasets.synthetic import World
from experiments.engine import (
    backward,
    build_training,
    compute_losses,
    seed_step,
    train_epoch,
    train_step,
)
from experiments.figures import epoch_figures, summarise
from experiments.ranks import Ranks, autocast
from models import build_criterion, build_model, counts, to_tensors
from tests.experiments.jobs import WORLD, compose_config, one_rank

VIDEOS = WORLD.train_videos
ALL_FRAMES = 174
"""Frames of all training videos: a block of this size holds them all."""
UNCLIPPED = "train.clip_norm=1e9"


def double_model(cfg):
    """In float64, with a memory that is heard: before training its readout is silent."""
    torch.manual_seed(cfg.train.seed)
    model = build_model(cfg.model).double()
    for name, parameter in model.named_parameters():
        if "readout" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def double_training(ranks, cfg, source=None, hook=None):
    """Training in float64, and the first batch of this rank."""
    source = source or build_source(cfg.dataset, "train")
    loader = BlockLoader(
        source,
        cfg.loader.name,
        batch_frames=cfg.train.batch_frames,
        rank=ranks.rank,
        world_size=ranks.world_size,
        **cfg.loader.options,
    )
    model = double_model(cfg)
    model.recompute = cfg.model.checkpoint == "backbone"
    if hook:
        model.register_forward_pre_hook(hook)
    letterbox = build_letterbox(source, cfg.dataset.augment, cfg.train.seed)
    training = build_training(cfg.train, ranks, model, build_criterion(cfg.loss), letterbox)
    return training, next(iter(loader))


def gradient_of(ranks, cfg, source=None, hook=None):
    """The gradient that reaches the optimiser on this rank in the first step, by parameter."""
    training, batch = double_training(ranks, cfg, source, hook)
    backward(training, compute_losses(training, batch, 0)[0])
    return {name: p.grad.numpy().copy() for name, p in training.model.named_parameters()}


def gradient_of_videos_alone(cfg):
    """Each video is its own block of exactly its length: no padding, no loader, no ranks."""
    model, criterion = double_model(cfg), build_criterion(cfg.loss)
    source = build_source(cfg.dataset, "train")
    videos = [source.read(v, 0, int(source.lengths[v])) for v in range(VIDEOS)]
    assert sum(len(frames) for frames, _ in videos) == ALL_FRAMES
    total = sum(counts(to_tensors(targets), cfg.model.queries) for _, targets in videos)
    for frames_TCHW, targets in videos:
        valid_BT = torch.ones(1, len(frames_TCHW), dtype=torch.bool)
        start_BT = torch.zeros_like(valid_BT)
        start_BT[0, 0] = True
        outputs = model(frames_TCHW[None], start_BT, valid_BT)
        criterion(outputs, to_tensors(targets), valid_BT, total)["loss"].backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


def differs(one, other):
    """The largest difference between two gradients, beside the largest entry."""
    assert one.keys() == other.keys()
    assert max(abs(gradient).max() for gradient in other.values()) > 0.1
    return max(abs(one[name] - gradient).max() for name, gradient in other.items())


@pytest.fixture
def alone(config):
    return gradient_of_videos_alone(config())


# The step takes the whole epoch: `frames` is the batch of all ranks together.
@pytest.mark.dist
@pytest.mark.parametrize(
    ("options", "frames"),
    [
        (("loader=naive",), 45 * 8),
        (("loader=bload",), 45 * 6),
        (("loader=bload", f"loader.t_max={ALL_FRAMES}"), ALL_FRAMES * 2),
        (("loader=bload", "model.checkpoint=backbone"), 45 * 6),
    ],
    ids=["naive", "bload", "rank-1-has-only-a-filler", "recomputing"],
)
def test_one_rank_two_ranks_and_videos_alone_give_the_same_gradient(
    config, two_ranks, alone, options, frames
):
    options = (*options, UNCLIPPED)
    one = gradient_of(one_rank(), config(*options, f"train.batch_frames={frames}"))
    two = two_ranks.run(gradient_of, config(*options, f"train.batch_frames={frames // 2}"))
    for gradient in (one, *two):
        assert differs(gradient, alone) < 1e-9


def test_the_gradient_does_tell_videos_apart_from_one_long_video(config, alone):
    """Without resets the claim above would fail by far."""
    cfg = config(f"loader.t_max={ALL_FRAMES}", f"train.batch_frames={ALL_FRAMES}", UNCLIPPED)

    def never_reset(_, inputs):
        return inputs[0], torch.zeros_like(inputs[1]), inputs[2]

    assert differs(gradient_of(one_rank(), cfg, hook=never_reset), alone) > 1e-4


class Lingering:
    """A source whose videos stay at their last frame until all are equally long."""

    def __init__(self, source):
        self.source = source
        self.videos, self.stored_size = source.videos, source.stored_size
        self.canvas_hw, self.image_size_hw = source.canvas_hw, source.image_size_hw
        self.lengths = np.full_like(source.lengths, source.lengths.max())

    def read(self, video, first, length):
        there = min(length, int(self.source.lengths[video]) - first)
        frames, targets = self.source.read(video, first, there)
        more = length - len(frames)
        last_CHW = frames[-1:].expand(more, *frames.shape[1:])
        return torch.cat([frames, last_CHW]), [*targets, *targets[-1:] * more]


def test_repeated_padding_gives_the_gradient_of_longer_videos(config, alone):
    cfg = config("loader=naive", "train.batch_frames=360", UNCLIPPED)
    repeated = gradient_of(one_rank(), replace(cfg, train=replace(cfg.train, padding="repeated")))
    longer = gradient_of(one_rank(), cfg, Lingering(build_source(cfg.dataset, "train")))
    assert differs(repeated, longer) < 1e-9
    assert differs(repeated, alone) > 1e-4


def test_truncation_and_starts_of_the_config_reach_the_network(config):
    one = gradient_of(one_rank(), config(UNCLIPPED))
    for option in ("train.bptt=2", "train.starts=wrong", "train.starts=ignored"):
        assert differs(gradient_of(one_rank(), config(UNCLIPPED, option)), one) > 1e-6, option


def test_clipping_bounds_the_gradient_that_is_used(config):
    training, batch = double_training(one_rank(), config("train.clip_norm=0.01"))
    norm = backward(training, compute_losses(training, batch, 0)[0])
    gradients = [p.grad for p in training.model.parameters()]
    assert norm > 1
    assert torch.nn.utils.get_total_norm(gradients) <= 0.01 + 1e-9


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
    assert len(steps) == len(data.loader) > 1
    assert sums["loss"] == pytest.approx(7 + sum(step.losses["loss"] for step in steps))
    assert 0 < sums["waiting"] < sums["seconds"]
    figures = epoch_figures(data.loader, sums, one_rank())
    assert figures["loss"] == pytest.approx(sums["loss"] / len(steps))
    assert summarise([figures, figures | {"loss": 9.0}])["loss"] == 9
    with mock.patch.object(Ranks, "gather", return_value=[(2.0, 0.1), (1.0, 0.5)]):
        assert epoch_figures(data.loader, sums, one_rank())["seconds"] == 2  # the slowest rank's
    assert {p.grad is not None for p in training.model.parameters()} == {True}


def test_a_gradient_that_is_not_finite_changes_nothing(config):
    cfg = config()
    data = train.open_data(cfg, one_rank())
    training = train.open_training(cfg, one_rank(), data)
    before = {name: value.clone() for name, value in training.model.state_dict().items()}
    batch = next(iter(data.loader))
    nan = torch.tensor(float("nan"))
    with (
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", return_value=nan),
        pytest.raises(ValueError, match=r"nan in epoch 1, step 4.*train\.lr"),
    ):
        train_step(training, batch, 0, 3, 9)
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
    batch = next(iter(data.loader))

    def loss(rank, step):
        training = train.open_training(cfg, Ranks(rank, 1, torch.device("cpu")), data)
        return train_step(training, batch, 0, step, 9).losses["loss"]

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
"""Loss and gradient norm of the first 20 steps, by loader, as the first release computed them."""


@pytest.mark.parametrize("loader", GOLDEN["steps"])
def test_the_first_losses_of_each_loader_stay_as_they_were(loader, tmp_path_factory):
    world = World(train_videos=24, test_videos=2, image_size=32, seed=3, drop_rate=0.1)
    knobs = [f"dataset.{k}={v}" for k, v in world.manifest().items() if k != "version"]
    root = tmp_path_factory.getbasetemp() / "golden"
    job = ["train.epochs=6", "train.batch_frames=64", "train.workers=0", "train.device=cpu"]
    job += ["model.dropout=0.1", "train.seed=1", f"loader={loader}", f"dataset.root={root}"]
    steps = first_steps(compose_config("train", [*knobs, *job]), 20)
    here = {"torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability()}
    if here == GOLDEN["made_with"]:  # one thread, see conftest.py
        assert steps == [tuple(step) for step in GOLDEN["steps"][loader]]
    else:  # other kernels round otherwise
        np.testing.assert_allclose(steps, GOLDEN["steps"][loader], rtol=0.02)

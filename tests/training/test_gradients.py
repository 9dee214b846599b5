"""The gradient of a step, in float64: ranks, padding, packing and batches never change it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bload import BlockLoader
from datasets.build import build_source
from models.criterion import Criterion, loss_divisors
from models.network_input import NetworkInput
from models.targets import to_tensors
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import heard, random_input
from tests.training.jobs import WORLD, one_rank
from training.ablations import change_starts
from training.build import build_training
from training.step import StepPosition, train_step

VIDEOS = WORLD.train_videos
ALL_FRAMES = 174
"""Frames of all training videos: a block of this size holds them all."""
UNCLIPPED = "train.clip_norm=1e9"
FIRST = StepPosition(0, 0, 0.0)
"""A step at the rate 0, which leaves the weights as they are."""


def double_training(ranks, cfg, source=None, hook=None):
    """Training in float64, and the first step of this rank."""
    source = source or build_source(cfg.dataset, "train")
    loader = BlockLoader(
        source,
        cfg.loader.name,
        batch_slots=cfg.train.batch_slots,
        rank=ranks.rank,
        world_size=ranks.world_size,
        micro_batches=cfg.train.micro_batches,
        **cfg.loader.options,
    )
    model = heard(cfg.model)
    model.exchange = cfg.train.exchange == "frames" and ranks.world_size > 1
    if hook:
        model.register_forward_pre_hook(hook)
    training = build_training(cfg, ranks, model, source, loader)
    return training, next(loader.by_step())


def gradient_and_batches(ranks, cfg, source=None, hook=None):
    """The gradient that reaches the optimiser on this rank in the first step, by parameter.

    Beside it slots and frames of each of the rank's batches, and how many pictures it computes.
    """
    (training, batches), pictures = double_training(ranks, cfg, source, hook), []
    encoder = training.model.backbone
    encoder.register_forward_pre_hook(lambda _, inputs: pictures.append(len(inputs[0])))
    train_step(training, batches, FIRST)
    gradient = {name: p.grad.numpy().copy() for name, p in training.model.named_parameters()}
    sizes = [(batch.valid_BT.shape[1], int(batch.valid_BT.sum())) for batch in batches]
    return gradient, sizes, pictures


def gradient_of(ranks, cfg, source=None, hook=None):
    """The gradient alone."""
    return gradient_and_batches(ranks, cfg, source, hook)[0]


def gradient_of_videos_alone(cfg):
    """Each video is its own block of exactly its length: no padding, no loader, no ranks."""
    model, criterion = heard(cfg.model), Criterion(**vars(cfg.loss))
    source = build_source(cfg.dataset, "train")
    videos = [source.read(v, 0, int(source.lengths[v])) for v in range(VIDEOS)]
    assert sum(len(frames) for frames, _ in videos) == ALL_FRAMES
    objects = [len(frame.object_classes_M) for _, targets in videos for frame in targets]
    total = loss_divisors(objects, cfg.model.queries)
    for frames_TCHW, targets in videos:
        start_BT = torch.arange(len(frames_TCHW))[None] == 0
        valid_BT = torch.ones_like(start_BT)
        outputs = model(NetworkInput(frames_TCHW[None], start_BT, valid_BT))
        criterion(outputs, to_tensors(targets), valid_BT, total)["loss"].backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


def differs(one, other, least=0.1):
    """The largest difference between two gradients, of which one entry at `least` is that large."""
    assert one.keys() == other.keys()
    assert max(abs(gradient).max() for gradient in other.values()) > least
    return max(abs(one[name] - gradient).max() for name, gradient in other.items())


def clipped(gradient, clip):
    """The gradient, made shorter if its norm is above `clip`."""
    norm = sum((value**2).sum() for value in gradient.values()) ** 0.5
    return {name: min(1, clip / norm) * value for name, value in gradient.items()}


@pytest.fixture(scope="module")
def alone(small_job):
    return gradient_of_videos_alone(small_job)


# The step takes the whole epoch: `frames` is the batch of all ranks together.
@pytest.mark.dist
@pytest.mark.parametrize(
    ("options", "frames"),
    [
        (("loader=naive",), 45 * 8),
        (("loader=bload", f"loader.t_max={ALL_FRAMES}"), ALL_FRAMES * 2),
        (("loader=bload", "model.recompute=backbone"), 45 * 6),
        (("loader=naive", "model.skip_padding=true", "train.exchange=frames"), 45 * 8),
    ],
    ids=["naive", "rank-1-has-only-a-filler", "recomputing", "exchanging-frames"],
)
def test_one_rank_two_ranks_and_videos_alone_give_the_same_gradient(
    config, two_ranks, alone, options, frames
):
    options = (*options, UNCLIPPED)
    one = gradient_of(one_rank(), config(*options, f"train.batch_slots={frames}"))
    two = two_ranks.run(gradient_of, config(*options, f"train.batch_slots={frames // 2}"))
    for gradient in (one, *two):
        assert differs(gradient, alone) < 1e-9


@pytest.mark.dist
@pytest.mark.parametrize(
    ("options", "micro_batches", "clip"),
    [
        (("loader=bload",), 3, 1e9),
        (("loader=bload", "loader.balance=uneven", "loader.cost={frame:1,pair:0.1}"), 3, 0.5),
        (("loader=naive", "loader.block_sizes=[22,45]", "model.skip_padding=true"), 9, 1e9),
        (("loader=ragged",), 9, 1e9),
        (("loader=bucket", "train.exchange=frames"), 9, 0.5),
    ],
    ids=["none", "uneven", "shapes", "ragged", "exchange"],
)
def test_batches_add_up_to_the_gradient_of_videos_alone(
    config, two_ranks, alone, options, micro_batches, clip
):
    """A step is the whole epoch, on two ranks, some of whose batches are fillers, and on one."""
    expected = clipped(alone, clip)
    options = (*options, f"train.clip_norm={clip}", "train.batch_slots=45")
    two = two_ranks.run(gradient_of, config(*options, f"train.micro_batches={micro_batches}"))
    one = gradient_of(one_rank(), config(*options, f"train.micro_batches={2 * micro_batches}"))
    for gradient in (one, *two):
        assert differs(gradient, expected, least=0.01) < 1e-6


@pytest.mark.dist
@pytest.mark.parametrize(
    ("ranks", "options"),
    [
        ("three_ranks", ("train.batch_slots=450",)),  # two batches, one of each shape
        ("two_ranks", ("train.batch_slots=45", "train.micro_batches=4", "train.exchange=frames")),
    ],
    ids=["rank-2-has-only-a-filler", "exchanging-frames"],
)
def test_two_shapes_a_filler_and_clipping_at_once(config, alone, request, ranks, options):
    expected = clipped(alone, 0.5)
    assert differs(expected, alone) > 0.01
    cfg = config("loader=naive", "loader.block_sizes=[10,45]", "train.clip_norm=0.5", *options)
    gradients, batches, _ = zip(
        *request.getfixturevalue(ranks).run(gradient_and_batches, cfg), strict=True
    )
    assert {slots for mine in batches for slots, _ in mine} == {10, 45}
    assert batches[-1][-1] == (10, 0)
    for gradient in gradients:
        assert differs(gradient, expected, least=0.01) < 1e-6


@pytest.mark.dist
@pytest.mark.parametrize("temporal", TEMPORAL_PARTS)
def test_frames_that_one_rank_alone_has_are_shared_evenly(config, two_ranks, temporal):
    """They leave margins, and a filler does not."""
    block = f"loader.t_max={ALL_FRAMES}", f"train.batch_slots={ALL_FRAMES}", UNCLIPPED
    lines = f"model.temporal={temporal}", "model.time=gap", "dataset.frame_size=[48,32]"
    cfg = config(*block, *lines, "model.skip_padding=true", "train.exchange=frames")
    alone = gradient_of(one_rank(), cfg)
    for gradient, _, pictures in two_ranks.run(gradient_and_batches, cfg):
        assert differs(gradient, alone) < 1e-9
        assert pictures[0] - ALL_FRAMES // 2 in (0, 1)  # of a filler one is computed


def test_the_gradient_does_tell_videos_apart_from_one_long_video(config, alone):
    """Without resets the claim above would fail by far."""
    cfg = config(f"loader.t_max={ALL_FRAMES}", f"train.batch_slots={ALL_FRAMES}", UNCLIPPED)

    def never_reset(_, inputs):
        given, state = inputs
        return replace(given, start_BT=torch.zeros_like(given.start_BT)), state

    assert differs(gradient_of(one_rank(), cfg, hook=never_reset), alone) > 1e-4


class Lingering:
    """A source whose videos stay at their last frame until all are equally long."""

    def __init__(self, source):
        self.source = source
        self.names, self.store = source.names, source.store
        self.read_hw, self.canvas_hw = source.read_hw, source.canvas_hw
        self.lengths = np.full_like(source.lengths, source.lengths.max())

    def read(self, video, first, length):
        there = min(length, int(self.source.lengths[video]) - first)
        frames, targets = self.source.read(video, first, there)
        more = length - len(frames)
        last_CHW = frames[-1:].expand(more, *frames.shape[1:])
        return torch.cat([frames, last_CHW]), [*targets, *targets[-1:] * more]


def test_repeated_padding_gives_the_gradient_of_longer_videos(config, alone):
    cfg = config("loader=naive", "train.batch_slots=360", UNCLIPPED)
    repeated = gradient_of(one_rank(), replace(cfg, train=replace(cfg.train, padding="repeated")))
    longer = gradient_of(one_rank(), cfg, Lingering(build_source(cfg.dataset, "train")))
    assert differs(repeated, longer) < 1e-9
    assert differs(repeated, alone) > 1e-4


def test_starts_of_the_config_reach_the_network(config):
    one = gradient_of(one_rank(), config(UNCLIPPED))
    for option in ("train.starts=wrong", "train.starts=ignored"):
        assert differs(gradient_of(one_rank(), config(UNCLIPPED, option)), one) > 1e-6, option


def test_wrong_starts_are_as_many_and_all_in_the_middle_of_a_sequence():
    inputs = random_input([[3, 5, 4, 6], [20], [], [7, 3], [1, 1, 1, 2]], slots=20)
    start_BT, valid_BT = inputs.start_BT, inputs.valid_BT
    for seed in range(20):
        wrong_BT = change_starts(start_BT, valid_BT, "wrong", seed)
        assert wrong_BT.sum(1).tolist() == [4, 1, 0, 2, 2]  # the last has one slot in mid-sequence
        assert torch.equal(wrong_BT[:, 0], start_BT[:, 0])
        assert not (wrong_BT & ~valid_BT).any()
        assert not (wrong_BT & start_BT)[:, 1:].any()
    goes_on_BT = start_BT & (torch.arange(20) > 0)  # rows without a start at slot 0
    assert change_starts(goes_on_BT, valid_BT, "wrong", 0)[0].sum() == 3


def test_clipping_bounds_the_gradient_that_is_used(config):
    training, batches = double_training(one_rank(), config("train.clip_norm=0.01"))
    figures, _ = train_step(training, batches, FIRST)
    gradients = [p.grad for p in training.model.parameters()]
    assert figures.grad_norm > 1
    assert torch.nn.utils.get_total_norm(gradients) <= 0.01 + 1e-9

"""Ranks, padding and packing never change the gradient: train.py's own step, in float64."""

from unittest import mock

import numpy as np
import pytest
import torch

import train
from datasets.build import build_source
from experiments.config import NOT_COMPUTED, without
from models import Criterion, build_model, counts, to_tensors
from tests.experiments.jobs import WORLD, one_rank

VIDEOS = WORLD.train_videos
ALL_FRAMES = 174
"""Frames of all training videos: a block of this size holds them all."""


class FirstGradient(Exception):
    """Ends training at its first step."""


def double_model(**sizes):
    return build_model(**sizes).double()


def gradient_of_first_step(ranks, config):
    """What reaches the optimiser on this rank, by parameter."""
    seen = {}

    def remember(**sizes):
        seen["model"] = double_model(**sizes)
        return seen["model"]

    with (
        mock.patch.object(train, "build_model", remember),
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", side_effect=FirstGradient),
        pytest.raises(FirstGradient),
    ):
        train.train(config, ranks)
    return {name: p.grad.numpy().copy() for name, p in seen["model"].named_parameters()}


class Lingering:
    """A source whose videos stay at their last frame until all are equally long."""

    def __init__(self, source):
        self.source = source
        self.videos, self.store = source.videos, source.store
        self.canvas_hw, self.image_size_hw = source.canvas_hw, source.image_size_hw
        self.lengths = np.full_like(source.lengths, source.lengths.max())

    def read(self, video, first, length):
        frames, targets = self.source.read(video, first, int(self.source.lengths[video]) - first)
        more = length - len(frames)
        last_CHW = frames[-1:].expand(more, *frames.shape[1:])
        return torch.cat([frames, last_CHW]), [*targets, *targets[-1:] * more]


def gradient_of_videos_alone(config):
    """Each video is its own block of exactly its length: no padding, no loader, no ranks."""
    torch.manual_seed(config["train"]["seed"])
    sizes = without(config["model"], "name", *NOT_COMPUTED)
    model, criterion = double_model(**sizes), Criterion(**config["loss"])
    source = build_source("train", **config["dataset"])
    videos = [source.read(v, 0, int(source.lengths[v])) for v in range(VIDEOS)]
    assert sum(len(frames) for frames, _ in videos) == ALL_FRAMES
    total = sum(counts(to_tensors(targets), sizes["queries"]) for _, targets in videos)
    for frames_TCHW, targets in videos:
        valid_BT = torch.ones(1, len(frames_TCHW), dtype=torch.bool)
        start_BT = torch.zeros_like(valid_BT)
        start_BT[0, 0] = True
        outputs = model(frames_TCHW[None], start_BT, valid_BT)
        criterion(outputs, to_tensors(targets), valid_BT, total)["loss"].backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


def assert_same_gradient(one, other):
    largest = max(abs(gradient).max() for gradient in other.values())
    assert largest > 0.1
    for name, gradient in other.items():
        torch.testing.assert_close(
            torch.from_numpy(one[name]),
            torch.from_numpy(gradient),
            rtol=0,
            atol=1e-9,
            msg=lambda text, name=name: f"{name}: {text}",
        )


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
    one = gradient_of_first_step(
        one_rank(), config(*options, f"train.batch_frames={frames}", runs="one")
    )
    two = two_ranks.run(
        gradient_of_first_step, config(*options, f"train.batch_frames={frames // 2}", runs="two")
    )
    assert_same_gradient(one, alone)
    for gradient in two:
        assert_same_gradient(gradient, alone)


def test_repeated_padding_gives_the_gradient_of_longer_videos(config, alone):
    job = ("loader=naive", "train.batch_frames=360")
    repeated = gradient_of_first_step(
        one_rank(), config(*job, "train.padding=repeated", runs="repeated")
    )

    def linger(split, **dataset):
        source = build_source(split, **dataset)
        return Lingering(source) if split == "train" else source

    with mock.patch.object(train, "build_source", linger):
        longer = gradient_of_first_step(one_rank(), config(*job, runs="longer"))
    assert_same_gradient(repeated, longer)
    with pytest.raises(AssertionError):
        assert_same_gradient(repeated, alone)


def test_the_gradient_does_tell_videos_apart_from_one_long_video(config, alone):
    """What the claim above would miss if states were not reset: it is no small error."""
    job = config("loader=bload", f"loader.t_max={ALL_FRAMES}", f"train.batch_frames={ALL_FRAMES}")

    def never_reset(**sizes):
        model = build_model(**sizes).double()
        model.register_forward_pre_hook(
            lambda _, inputs: (inputs[0], torch.zeros_like(inputs[1]), inputs[2])
        )
        return model

    with mock.patch(f"{__name__}.double_model", never_reset):
        carried = gradient_of_first_step(one_rank(), job)
    with pytest.raises(AssertionError):
        assert_same_gradient(carried, alone)

"""Costs as counted by hand, and as real tensors cost."""

from dataclasses import replace

import pytest
import torch

from models import build_model
from models.cost import Affine, Cost, kept_bytes, measure_cost
from tests.models.conftest import SIDE, SMALL

TOKENS = (SIDE // 8) ** 2
SLOTS = 3
SMALL_COST = replace(SMALL, decoder_layers=1, temporal_layers=1, norm_first=False)


def measured(cfg, side=(SIDE, SIDE), slots=SLOTS) -> Cost:
    full = torch.autocast("cpu", enabled=False)
    return measure_cost(cfg, side, slots, full, torch.device("cpu"))


@pytest.fixture(scope="module")
def cost():
    return measured(SMALL_COST)


def test_parameters_are_those_counted_by_hand(cost):
    box = 2 * (16 * 16 + 16) + 16 * 4 + 4
    encoder = 3 * 16 * 17 + 16 * 17 + (16 * 24 + 24) + (24 * 16 + 16) + 2 * 2 * 16
    assert cost.parameters["person_box"] == cost.trainable["person_box"] == box
    assert cost.parameters["object_class"] == 16 * 37 + 37
    assert cost.parameters["encoder"] == encoder
    total = sum(p.numel() for p in build_model(SMALL_COST).parameters())
    assert sum(cost.parameters.values()) == total
    assert cost.parameter_bytes == cost.trainable_bytes == 4 * total


def test_flops_are_those_counted_by_hand(cost):
    layers, queries = 1 + 1, 5
    assert cost.flops["object_class"] == 2 * layers * queries * 16 * 37
    assert cost.flops["person_box"] == 2 * layers * queries * (2 * 16 * 16 + 16 * 4)
    assert cost.flops["input_proj"] == 2 * TOKENS * 128 * 16
    projections = 4 * 16 * 16 + 2 * 16 * 24
    attention = 2 * TOKENS * TOKENS * 16
    assert cost.flops["encoder"] == 2 * (TOKENS * projections + attention)
    convolutions = 9 * (16**2 * 3 * 16 + 8**2 * 16 * 64 + 4**2 * 64 * 128)
    assert cost.flops["backbone"] == 2 * convolutions


@pytest.mark.parametrize("temporal", ["dds", "attention"])
def test_twice_the_frames_keep_twice_the_memory_but_for_a_constant(cost, temporal):
    """`Affine` comes from one and two blocks; a real forward pass of more keeps what it says."""
    cfg = replace(SMALL_COST, temporal=temporal, time="none" if temporal == "dds" else "gap")
    if temporal != SMALL_COST.temporal:
        cost = measured(cfg)
    model = build_model(cfg).train()
    for recompute in (False, True):
        model.recompute = recompute
        for blocks in (1, 3):
            frames = SLOTS * blocks
            pixels = torch.zeros(blocks, SLOTS, 3, SIDE, SIDE, dtype=torch.uint8)
            flags = torch.zeros(2, blocks, SLOTS, dtype=torch.bool)
            batch = (pixels, *flags, None, None, torch.zeros(blocks, SLOTS))
            real = kept_bytes(model, batch, torch.autocast("cpu", enabled=False))
            if recompute:
                assert cost.kept_recomputing(frames) == pytest.approx(real.total(), rel=0.01)
            else:
                assert cost.activations(frames, False) == pytest.approx(real.total(), rel=0.01)
                assert cost.kept["encoder"](frames) == real["encoder"]
                assert cost.kept["backbone"](frames) == real["backbone"]


def test_what_a_linear_layer_keeps_is_its_input():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 5)
            self.second = torch.nn.Linear(5, 2)

        def forward(self, inputs):
            return self.second(self.first(inputs)[:2]) * inputs.sum()

    kept = kept_bytes(Two(), (torch.ones(4, 3),), torch.autocast("cpu", enabled=False))
    # The input is there anyway; `second` keeps what `first` said, whole, though it reads a half,
    # and the product at the end the sum (its other factor needs no gradient for it).
    assert kept == {"second": 4 * 4 * 5, "other": 4}


def test_a_step_fits_if_it_takes_at_most_four_fifths_of_what_is_free():
    kept, again = {"encoder": Affine(0, 30 << 20)}, Affine(0, 1 << 20)
    cost = Cost({}, {}, {}, kept, again, parameter_bytes=0, trainable_bytes=100 << 20)
    needed = 10 * (30 << 20) + 3 * (100 << 20)  # ten frames; gradients and two moments
    assert cost.fits(10, int(needed / 0.8) + 1)
    assert not cost.fits(10, int(needed / 0.8) - 1)
    assert not cost.fits(11, int(needed / 0.8) + 1)
    assert cost.activations(4, True) == 4 * (31 << 20)  # no chunk is longer than its step
    for recompute, words in ((True, "recomputing them"), (False, "keeping them")):
        said = cost.decision(100, 4 << 30, recompute)
        for figure in ("100 frames", "3.2 GiB", "0.9 with", "80%", words):
            assert figure in said

"""Costs as counted by hand, and as real tensors cost."""

from dataclasses import replace

import pytest
import torch

from models import build_model
from models.cost import Affine, NetworkCost, main, measure_cost, saved_bytes
from models.frames import Frames
from models.recompute import CHUNK, Recompute
from tests.models.conftest import SIDE, SMALL
from tests.models.live import peak_bytes

TOKENS = (SIDE // 8) ** 2
SLOTS = 3
SMALL_COST = replace(SMALL, decoder_layers=1, temporal_layers=1, norm_first=False)


FULL = torch.autocast("cpu", enabled=False)


def measured(cfg, side=(SIDE, SIDE), slots=SLOTS) -> NetworkCost:
    return measure_cost(cfg, side, slots, FULL, torch.device("cpu"))


def nothing(blocks):
    """A real batch of black frames."""
    pixels = torch.zeros(blocks, SLOTS, 3, SIDE, SIDE, dtype=torch.uint8)
    flags = torch.zeros(2, blocks, SLOTS, dtype=torch.bool)
    return Frames(pixels, *flags, extra_BT=torch.zeros(blocks, SLOTS))


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


def test_twice_the_frames_keep_twice_the_memory_but_for_a_constant(cost):
    """`Affine` comes from one and two blocks; a real forward pass of more keeps what it says."""
    model = build_model(SMALL_COST).train()
    for blocks in (1, 3):
        real = saved_bytes(model, nothing(blocks), FULL)
        kept = {name: part(SLOTS * blocks) for name, part in cost.saved.items()}
        del kept["input_proj"]  # torch 2.14's fake GroupNorm is not channels-last: a copy there
        assert sum(kept.values()) == pytest.approx(real.total() - real["input_proj"], rel=0.01)
        assert cost.saved["encoder"](SLOTS * blocks) == real["encoder"]
        assert cost.saved["backbone"](SLOTS * blocks) == real["backbone"]


def test_the_peak_is_that_of_real_passes(cost):
    """Temporaries have room in that of the gradients and of a moment, which no pass needs."""
    model = build_model(SMALL_COST).train()
    blocks = 24
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        model.execution = Recompute(share=share)
        real = peak_bytes(model, nothing(blocks))
        frames = SLOTS * blocks
        assert 0.98 * cost.activations(frames, share) < real
        assert real < cost.step_bytes(frames, share) - cost.trainable_bytes


def test_what_a_linear_layer_keeps_is_its_input():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 5)
            self.second = torch.nn.Linear(5, 2)

        def forward(self, frames):
            inputs = frames.pixels_BTCHW
            return self.second(self.first(inputs)[:2]) * inputs.sum()

    kept = saved_bytes(
        Two(), Frames(torch.ones(4, 3), torch.ones(4)), torch.autocast("cpu", enabled=False)
    )
    # The input is there anyway; `second` keeps what `first` said, whole, though it reads a half,
    # and the product at the end the sum (its other factor needs no gradient for it).
    assert kept == {"second": 4 * 4 * 5, "other": 4}


def test_as_few_pictures_are_recomputed_as_let_a_step_fit():
    each, rest, moments = 30 << 20, 1 << 20, 3 * (100 << 20)
    kept = {"encoder": Affine(0, each), "other": Affine(0, rest)}
    cost = NetworkCost(
        {}, {}, {}, kept, Affine(0, rest), parameter_bytes=0, trainable_bytes=100 << 20
    )
    needed = moments + 10 * (each + rest)  # ten frames; gradients and two moments
    assert cost.step_bytes(10, 0) == needed
    assert cost.least_share(10, needed) == 0
    assert cost.least_share(10, needed - 1) == 0.1
    assert cost.least_share(10, needed - each) == 0.1
    assert cost.least_share(10, needed - 3 * each) == 0.3
    assert cost.least_share(11, needed) == 2 / 11
    assert cost.least_share(10, moments) == 1  # not even then
    assert cost.activations(100, 1) == CHUNK * each  # a chunk, when the rest is gone
    assert cost.activations(4, 1) == 4 * each  # no chunk is longer than its step
    assert cost.activations(1000, 1) == 1000 * rest


def test_the_command_prints_a_short_table(capsys):
    main(["dds_tiny", "--frames", "3"])
    text = capsys.readouterr().out
    for words in ("dds_tiny", "64 x 64", "float32", "blocks of 3", "3 frames"):
        assert words in text
    rows = {row.split()[0]: row.split()[1:] for row in text.splitlines() if row}
    assert rows["object_class"][:2] == [f"{64 * 37 + 37:,}"] * 2
    kept, fixed, total = (float(rows[name][-2]) for name in ("activations", "weights,", "sum"))
    assert total == pytest.approx(kept + fixed, abs=0.011)
    assert len(text.splitlines()) < 40

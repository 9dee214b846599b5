"""Costs as counted by hand, and as real tensors cost."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker

from models import build_model
from models.cost import NetworkCost, main, measure_cost
from models.dds import RECOMPUTED_AT_ONCE
from models.network_input import NetworkInput
from tests.models.conftest import SIDE, SMALL, tensors

SMALL_COST = replace(SMALL, decoder_layers=1, temporal_layers=1, norm_first=False)
SHAPE_BT = (24, 3)


@pytest.fixture(scope="module")
def cost():
    precision = torch.autocast("cpu", enabled=False)
    return measure_cost(SMALL_COST, (SIDE, SIDE), SHAPE_BT, precision, torch.device("cpu"))


def peak_bytes(model: nn.Module, inputs: NetworkInput) -> int:
    """Most bytes that a forward and a backward pass hold at once, the new gradients among them."""
    given = *model.parameters(), *model.buffers(), inputs.pixels_BTCHW  # are counted too
    with MemTracker() as tracker:
        outputs = tensors(model(inputs))
        sum(value.sum() for value in outputs.values()).backward()
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return peak["Total"] - sum(tensor.nbytes for tensor in given)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_peak_is_that_of_real_passes(cost, share):
    """Temporaries have room in that of the gradients and of a moment, which no pass needs.

    The fake group norm of torch 2.14 is not channels-last, so a copy is counted that is not made.
    """
    model = build_model(SMALL_COST).train()
    model.recomputed_share = share
    pixels = torch.zeros(*SHAPE_BT, 3, SIDE, SIDE, dtype=torch.uint8)
    real = peak_bytes(model, NetworkInput(pixels, torch.arange(SHAPE_BT[1]).expand(SHAPE_BT) == 0))
    parameter_bytes = 4 * cost.parameters
    step = cost.step_bytes(share)
    assert 0.97 * (step - 4 * parameter_bytes) < real < step - 2 * parameter_bytes


def test_a_step_on_a_gpu_is_measured_without_one(cost):
    precision = torch.autocast("cuda", enabled=False)
    on_gpu = measure_cost(SMALL_COST, (SIDE, SIDE), SHAPE_BT, precision, torch.device("cuda"))
    assert (on_gpu.parameters, on_gpu.flops) == (cost.parameters, cost.flops)
    assert on_gpu.saved_bytes > on_gpu.recomputable_bytes > 0


def test_as_few_pictures_are_recomputed_as_let_a_step_fit():
    cost = NetworkCost(100, 0, 10, 11_000, 10_000)
    for count, room in ((0, 12_600), (1, 12_599), (1, 11_600), (3, 9_600), (10, 1_000)):
        assert cost.least_share(room) == count / 10
    assert replace(cost, frames=100).step_bytes(1) == 1600 + RECOMPUTED_AT_ONCE * 100


def test_the_command_prints_a_short_table(capsys):
    main(["dds_tiny"])
    text = capsys.readouterr().out
    assert text.startswith("dds_tiny: 488,009 parameters; 0.034 GFLOP a frame")
    assert "a step of 94 frames: 0.11 GiB" in text
    with pytest.raises(SystemExit):
        main(["dds_tiny", "--frame-size", "0", "64"])

"""Costs as counted by hand, and as real tensors cost."""

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

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


class Live(TorchDispatchMode):
    """Bytes that operations under it have taken and that are in use, now and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen = WeakIdKeyDictionary()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        results = operation(*args, **(kwargs or {}))
        given, made = (
            {leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}
            for tree in ((args, kwargs), results)
        )
        for storage in made - given:
            if storage not in self.seen:
                self.seen[storage] = True
                self.now += storage.nbytes()
                weakref.finalize(storage, self._free, storage.nbytes())
        self.peak = max(self.peak, self.now)
        return results

    def _free(self, size: int) -> None:
        self.now -= size


def peak_bytes(model: nn.Module, inputs: NetworkInput) -> int:
    """Most bytes that a forward and a backward pass hold at once, the new gradients among them."""
    with Live() as live:
        outputs = tensors(model(inputs))
        sum(value.sum() for value in outputs.values()).backward()
    return live.peak


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

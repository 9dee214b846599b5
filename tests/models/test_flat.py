"""The network as a function of tensors: as by segments, and one graph."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from models.flat import FlatCore, predictions
from models.temporal import TEMPORAL_PARTS
from tests.models.conftest import random_frames, tiny


def values_and_gradients(outputs: tuple[Tensor, ...], model: torch.nn.Module) -> list[Tensor]:
    loss = torch.stack([values.sin().sum() for values in outputs]).sum()
    return [*outputs, *torch.autograd.grad(loss, [*model.parameters()])]


@pytest.mark.parametrize("part", TEMPORAL_PARTS)
def test_walks_by_slots_have_the_outputs_and_gradients_of_walks_by_segments(part):
    """With dropout, which draws in the same order."""
    model = tiny(temporal=part, time="gap", dropout=0.2)
    frames = random_frames([[3, 4, 2], [5, 1, 1]], 10)
    extents = torch.linspace(0.6, 1, 40).view(2, 10, 2)
    frames = replace(frames, extra_BT=torch.arange(20.0).view(2, 10), extent_BT2=extents)
    core = FlatCore(model, frames)
    torch.manual_seed(1)
    wanted = values_and_gradients(predictions(model(frames)), model)
    torch.manual_seed(1)
    found = values_and_gradients(core(*core.tensors(frames)), model)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


SLOW = pytest.param(86, "aot_eager", marks=pytest.mark.slow)


@pytest.mark.parametrize(("slots", "backend"), [(24, "eager"), SLOW])
def test_it_is_one_graph_for_every_batch_of_a_shape(slots, backend):
    torch._dynamo.reset()
    model, counter = tiny(temporal_layers=1), CompileCounterWithBackend(backend)
    lengths = [[slots - 5, 5], [3] * (slots // 3), [slots // 2]]
    for length in lengths:
        frames = random_frames([length], slots)
        core = FlatCore(model, frames)
        compiled = torch.compile(core.forward, fullgraph=True, backend=counter)
        wanted = values_and_gradients(predictions(model(frames)), model)
        found = values_and_gradients(compiled(*core.tensors(frames)), model)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert counter.frame_count == 1

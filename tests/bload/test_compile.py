"""`torch.compile` of walks and packed sequences: no break, few graphs, equal gradients."""

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from bload import BlockLoader, WalkOrder, from_dataset, walk
from tests.bload.conftest import Cell, batch_of

pytest.importorskip("torch", minversion="2.11")  # 2.6 does not trace walk


class Packed(nn.Module):
    """Layers before and after a GRU, which torch does not compile."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 8).double(), nn.Linear(8, 2).double()
        self.gru = nn.GRU(8, 8, batch_first=True).double()

    def before(self, batch, order):
        return batch.to_packed(self.first(batch.inputs_BT).relu(), order).data

    def after(self, batch, packed, order):
        return self.last(batch.from_packed(packed, order))


@pytest.fixture
def batches():
    """Ten batches of one shape; the sixth is a filler."""
    torch._dynamo.reset()
    lengths = np.random.default_rng(0).integers(1, 10, 100).tolist()
    source = from_dataset([torch.randn(n, 8).double() for n in lengths], lengths)
    some = [*BlockLoader(source, t_max=10, batch_slots=40)][:9]
    assert len({len(batch.segments) for batch in some}) > 2
    return [*some[:5], batch_of(source, 4, some[0].step), *some[5:]]


def gradients(outputs, module):
    return torch.autograd.grad(outputs.sin().sum(), [*module.parameters()])


def test_a_walk_by_slots_is_one_graph_and_with_an_order_one_a_batch(batches):
    cell, counter = Cell().double(), CompileCounterWithBackend("eager")

    @torch.compile(fullgraph=True, backend=counter)
    def outputs(batch, order):
        return walk(cell, batch.inputs_BT, batch.start_BT, order=order)[0]

    def compare(batch, order):
        found, wanted = outputs(batch, order), walk(cell, batch.inputs_BT, batch.start_BT)[0]
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(gradients(found, cell), gradients(wanted, cell))

    for batch in batches[3:6]:
        compare(batch, "segments")
    assert counter.frame_count == 1
    for batch in batches[:2]:
        compare(batch, WalkOrder.of(batch.start_BT))
    assert counter.frame_count == 1 + 2


def test_packing_and_unpacking_are_few_graphs_for_batches_of_a_shape(batches):
    model = Packed()
    before, after = (CompileCounterWithBackend("aot_eager") for _ in range(2))
    data = torch.compile(model.before, fullgraph=True, dynamic=True, backend=before)
    outputs = torch.compile(model.after, fullgraph=True, dynamic=True, backend=after)
    for batch in batches:
        order = batch.packed_order()
        packed, _ = model.gru(order._replace(data=data(batch, order)))
        found = outputs(batch, packed, order)
        alone, _ = model.gru(batch.to_packed(model.first(batch.inputs_BT).relu()))
        wanted = model.last(batch.from_packed(alone))
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(gradients(found, model), gradients(wanted, model))
    assert before.frame_count <= 3  # a size of one, as the filler has, is compiled by itself
    assert after.frame_count <= 2

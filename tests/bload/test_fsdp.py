"""torch's sharding engines: the gradient of each step is that of its sequences, each alone."""

from itertools import chain

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy

from bload import BlockLoader, from_dataset, mean_loss
from tests.several_ranks import start_ranks

pytest.importorskip("torch", minversion="2.11")  # 2.6 shards on GPUs alone
LENGTHS = [3, 5, 2, 9, 1, 4, 9, 7, 6, 8, 4]
"""Seven blocks of 9, so that the last step of two and of four ranks has a filler."""


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request, tmp_path_factory):
    """Two and four ranks in a process group."""
    yield from start_ranks(tmp_path_factory.mktemp("ranks"), request.param)


def source():
    """Frames of 6 features; some have no label."""
    torch.manual_seed(0)
    items = [(torch.randn(n, 6).double(), torch.randint(4, (n,))) for n in LENGTHS]
    for _, labels in items:
        labels[::3] = -100
    return from_dataset(items, LENGTHS)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = nn.Linear(6, 8).double(), nn.Linear(8, 8).double()
        self.gru = nn.GRU(8, 8, batch_first=True).double()
        self.head = nn.Linear(8, 4).double()

    def forward(self, batch):
        values_BT = self.down(self.up(batch.inputs_BT).relu())
        return self.head(batch.from_packed(self.gru(batch.to_packed(values_BT))[0]))

    def alone(self, frames):
        return self.head(self.gru(self.down(self.up(frames).relu())[None])[0][0])


def sharded(ranks, way):
    """The network under an engine, and the group of the ranks that share the data."""
    model, size = Network(), ranks.world_size
    if way == "dp and tp":
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return fully_shard(model, mesh=mesh["dp"]), mesh["dp"].get_group()
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    mesh = mesh if way == "hybrid" else init_device_mesh("cpu", (size,))
    for layer in model.children() if way == "by layer" else ():
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), None


def trained(ranks, way, micro_batches, with_count, with_scaler):
    """By step: the sequences of all ranks, their fillers, and the gradient."""
    model, group = sharded(ranks, way)
    loader = BlockLoader(source(), t_max=9, micro_batches=micro_batches, process_group=group)
    optimiser = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=with_scaler)
    steps = []
    for batches in loader.by_step():
        counts = sum((batch.targets_BT != -100).sum() for batch in batches) if with_count else None
        for batch in batches:
            model.set_requires_gradient_sync(batch.ends_step)
            sums = cross_entropy(model(batch).mT, batch.targets_BT, reduction="sum")
            scaler.scale(mean_loss(sums, batches, counts, group)).backward()
        scaler.unscale_(optimiser)
        gradient = {name: p.grad.full_tensor().numpy() for name, p in model.named_parameters()}
        optimiser.zero_grad()
        scaler.update()
        sequences = [batch.segments.sequence_S.tolist() for batch in batches]
        on_all_ranks = [None] * dist.get_world_size(group)
        dist.all_gather_object(on_all_ranks, sequences, group)
        steps.append(([*chain.from_iterable(on_all_ranks)], gradient))
    return steps


def alone(sequences, with_count):
    """The gradient of the mean over the sequences, one after another."""
    model, items = Network(), source().dataset
    logits = torch.cat([model.alone(items[s][0]) for s in sequences])
    labels = torch.cat([items[s][1] for s in sequences])
    loss_sum = cross_entropy(logits, labels, reduction="sum")
    (loss_sum / ((labels != -100).sum() if with_count else len(labels))).backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


@pytest.mark.dist
@pytest.mark.parametrize("way", ["whole", "by layer", "hybrid", "dp and tp"])
@pytest.mark.parametrize(
    ("micro_batches", "with_count", "with_scaler"),
    [(1, False, False), (2, False, False), (1, True, False), (2, True, True)],
)
def test_each_gradient_is_that_of_the_sequences_alone(
    ranks, way, micro_batches, with_count, with_scaler
):
    options = way, micro_batches, with_count, with_scaler
    everywhere = ranks.run(trained, *options)
    steps = everywhere[0]
    seen = sorted(s for batches, _ in steps for batch in batches for s in batch)
    assert seen == [*range(len(LENGTHS))]
    assert [] in steps[-1][0] or len(steps[-1][0]) == 1
    for step, (batches, _) in enumerate(steps):
        wanted = alone([*chain.from_iterable(batches)], with_count)
        for rank in everywhere:
            for name, gradient in rank[step][1].items():
                np.testing.assert_allclose(gradient, wanted[name], rtol=1e-10, atol=1e-14)

"""Ranks from the process group: one plan, one result, and the gradient of sequences alone.

The gradient is that of DDP and of torch's sharding engines.
"""

from itertools import chain, permutations, product

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from bload import (
    PACKERS,
    BlockLoader,
    InputError,
    StreamBlocks,
    StreamLoader,
    from_dataset,
    mean_loss,
    spread_rows,
    unpack,
)
from bload.batch.spread import transfers
from tests.several_ranks import start_ranks

LENGTHS = [3, 5, 2, 9, 1, 4, 9, 7, 6, 8, 4]
"""Seven blocks of 9, so that the last step of two and of four ranks has a filler."""


@pytest.fixture(scope="module", params=[1, 2, 3])
def ranks(request, tmp_path_factory):
    """One, two and three ranks in a process group."""
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
    if way == "ddp":
        return DistributedDataParallel(model), None
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
            if way != "ddp":
                model.set_requires_gradient_sync(batch.ends_step)
            sums = cross_entropy(model(batch).mT, batch.targets_BT, reduction="sum")
            scaler.scale(mean_loss(sums, batches, counts, group)).backward()
        scaler.unscale_(optimiser)
        grads = [parameter.grad for parameter in model.parameters()]
        gradient = [getattr(grad, "full_tensor", grad.clone)().numpy() for grad in grads]
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
    return [parameter.grad.numpy() for parameter in model.parameters()]


@pytest.mark.dist
@pytest.mark.parametrize(
    ("way", "ranks"),
    [
        *product(["ddp"], [1, 2, 3]),
        *product(["whole", "by layer", "hybrid", "dp and tp"], [2, 4]),
    ],
    indirect=["ranks"],
)
@pytest.mark.parametrize(
    ("micro_batches", "with_count", "with_scaler"),
    [(1, False, False), (2, False, False), (1, True, False), (2, True, True)],
)
def test_each_gradient_is_that_of_the_sequences_alone(
    ranks, way, micro_batches, with_count, with_scaler
):
    if way != "ddp":
        pytest.importorskip("torch", minversion="2.11")  # 2.6 shards on GPUs alone
    everywhere = ranks.run(trained, way, micro_batches, with_count, with_scaler)
    steps = everywhere[0]
    seen = sorted(s for batches, _ in steps for batch in batches for s in batch)
    assert seen == [*range(len(LENGTHS))]
    assert [] in steps[-1][0] or len(steps[-1][0]) == 1
    for step, (batches, _) in enumerate(steps):
        wanted = alone([*chain.from_iterable(batches)], with_count)
        for rank in everywhere:
            for found, gradient in zip(rank[step][1], wanted, strict=True):
                np.testing.assert_allclose(found, gradient, rtol=1e-10, atol=1e-14)


def test_a_mean_over_no_frame_is_zero():
    logits = torch.zeros(3, 4, requires_grad=True)
    empty = cross_entropy(logits, torch.full((3,), -100), reduction="sum")
    (batch,) = BlockLoader(source(), t_max=10, batch_slots=10**3)
    loss = mean_loss(empty, batch, 0)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


def test_a_mean_takes_single_numbers():
    batch = next(iter(BlockLoader(source(), t_max=10)))
    for loss_sum, count, words in (
        (torch.ones(3), 3, r"loss_sum has the shape \(3,\); give its sum"),
        (torch.ones(()), torch.ones(3, dtype=torch.bool), r"count has the shape \(3,\)"),
        (torch.ones(()), float("inf"), "count is inf; give the number of terms"),
    ):
        with pytest.raises(InputError, match=words):
            mean_loss(loss_sum, batch, count)
    for nothing in (None, [], [None]):
        with pytest.raises(InputError, match="give a batch, or a list of those of the step"):
            mean_loss(torch.ones(()), nothing)


def test_the_mean_of_a_step_is_right_in_several_batches_or_refused():
    loader = BlockLoader(source(), t_max=10, micro_batches=3)
    for batches in loader.by_step():
        losses = [torch.randn(batch.valid_BT.shape).where(batch.valid_BT, 0) for batch in batches]
        wanted = sum(loss.sum() for loss in losses) / batches[0].frames_in_step
        counts = [batch.valid_BT.sum() for batch in batches]
        sums = [loss.sum() for loss in losses]
        for of, count in ((batches, [None] * len(sums)), ([batches] * 3, [sum(counts)] * 3)):
            shares = [mean_loss(*each) for each in zip(sums, of, count, strict=False)]
            assert torch.allclose(sum(shares), wanted)
        if len(batches) > 1:
            with pytest.raises(InputError, match=f"one of {len(batches)} of its step"):
                mean_loss(sums[0], batches[0], counts[0])


def test_ranks_with_unequal_batches_cannot_add_up_a_count():
    options = {"world_size": 2, "micro_batches": 2, "balance": "uneven"}
    loader = BlockLoader(source(), t_max=10, rank=0, **options)
    batches = next(loader.by_step())
    loss_sum = torch.ones((), requires_grad=True)
    assert mean_loss(loss_sum, batches[0]) == 2 / batches[0].frames_in_step
    with pytest.raises(InputError, match="balance=uneven"):
        mean_loss(loss_sum, batches, 3)


def test_targets_per_sequence_want_their_count():
    source = from_dataset([(torch.randn(n, 6), n) for n in (3, 4)], [3, 4], targets_per="sequence")
    (batch,) = BlockLoader(source, t_max=7)
    with pytest.raises(InputError, match=r"len\(batch\.segments\) .*valid_BT"):
        mean_loss(torch.ones(()), batch)
    assert mean_loss(torch.ones(()), batch, len(batch.segments)) == 0.5


def within_group(ranks):
    """What each rank of two groups (even, odd) trains, and the value of a loss of 1 a frame."""
    parities = range(min(2, ranks.world_size))
    groups = [dist.new_group([*range(parity, ranks.world_size, 2)]) for parity in parities]
    group = groups[ranks.rank % 2]
    loader = BlockLoader(source(), t_max=10, batch_slots=80, process_group=group)
    (batch,) = loader
    frames = batch.valid_BT.sum()
    loss = mean_loss(frames.double(), batch, frames, group)
    assert mean_loss(frames.double(), batch) == loss  # the batch knows its ranks
    if dist.get_world_size() != dist.get_world_size(group):
        with pytest.raises(InputError, match="pass the process_group of the loader"):
            mean_loss(frames.double(), batch, frames)
        with pytest.raises(InputError, match="pass the process_group of the loader"):
            unpack(batch.position_BT, batch, gather=True)
    assert mean_loss(frames.double(), [batch]) == loss
    outputs = unpack(batch.position_BT, batch, gather=True, process_group=group)
    stream = StreamLoader(StreamBlocks([torch.zeros(3)] * 4, t_max=3), process_group=group).stream
    assert (stream.rank, stream.world_size) == (dist.get_rank(group), dist.get_world_size(group))
    mine = sorted({*batch.sequence_BT.unique().tolist()} - {-1})
    return mine, float(loss), [output.sequence for output in outputs]


@pytest.mark.dist
def test_ranks_that_share_the_data_may_be_a_group_of_their_own(ranks):
    results = ranks.run(within_group)
    for group in (results[::2], results[1::2])[: ranks.world_size]:
        assert sorted(s for mine, _, _ in group for s in mine) == [*range(len(LENGTHS))]
        assert np.mean([loss for _, loss, _ in group]) == pytest.approx(1)
        assert all(sequences == [*range(len(LENGTHS))] for _, _, sequences in group)


def refused(ranks, kind):
    lengths = [*LENGTHS]
    options = {}
    if kind == "lengths" and ranks.rank == ranks.world_size - 1:
        lengths[0] += 1
    if isinstance(kind, dict):
        options = {name: values[min(ranks.rank, 1)] for name, values in kind.items()}
    if kind == "rank":
        options = {"rank": ranks.rank + 1, "world_size": ranks.world_size + 1}
    if kind == "outside":
        options = {"process_group": dist.new_group([0])}
    if kind == "packer":  # it draws by itself
        rng = np.random.default_rng(ranks.rank)
        PACKERS["own"] = lambda lengths, t_max, _: PACKERS["bload"](lengths, t_max, rng)
        options = {"packer": "own"}
    sequences = [torch.zeros(n, 2) for n in lengths]
    try:
        loader = BlockLoader(from_dataset(sequences, lengths), **{"t_max": 10} | options)
        if kind == "step" and ranks.rank == 0:
            loader.load_state_dict(loader.sampler.state_dict(1))
        for epoch in range(2):
            loader.set_epoch(epoch + (kind == "epoch" and epoch * ranks.rank))
            list(loader)
    except InputError as error:
        return str(error)


@pytest.mark.dist
def test_ranks_that_disagree_all_end_with_the_same_sentence(ranks):
    said = ranks.run(refused, "rank")
    assert all("process group" in one and "leave rank and world_size out" in one for one in said)
    if ranks.world_size > 1:
        last = ranks.world_size - 1
        for kind, words in (
            ("lengths", (f"frames is {sum(LENGTHS)} on", f"{sum(LENGTHS) + 1} on rank {last}")),
            ("epoch", ("epoch is 1 on rank 0", "2 on rank 1")),
            ("step", ("step is 1 on rank 0", "0 on rank 1")),
            ("packer", ("plan is [",)),
            ({"seed": (0, 1)}, ("seed is 0 on rank 0", "1 on rank 1")),
            ({"balance": ("none", "pairs")}, ("balance is None on rank 0", "pairs on rank 1")),
            ({"batch_slots": (20, 10), "micro_batches": (1, 2)}, ("micro_batches is 1 on",)),
            ({"pad": ({}, {"targets": 1.0})}, ("pad is {} on rank 0",)),
            ({"balance": ("queue", "none")}, ("balance is queue on rank 0 and None on",)),
            ({"names": ([*"abcdefghijk"], [*"kjihgfedcba"])}, ("names digest is",)),
        ):
            (sentence,) = {*ranks.run(refused, kind)}
            assert all(word in sentence for word in words), sentence
        first, *others = ranks.run(refused, "outside")
        assert first is None
        assert all("not in the process_group" in said for said in others)
    for kind in (None, {"pad": ({"inputs": np.nan},) * 2}):  # NaN differs from itself
        assert ranks.run(refused, kind) == [None] * ranks.world_size


def test_ranks_are_not_guessed(monkeypatch):
    for given in ({"rank": 0}, {"world_size": 2}):
        with pytest.raises(InputError, match="give both"):
            BlockLoader(source(), **given)
    monkeypatch.setenv("SLURM_NTASKS", "4")  # set in a batch script too
    monkeypatch.setenv("WORLD_SIZE", "")
    assert BlockLoader(source()).sampler.world_size == 1
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    with pytest.raises(InputError, match=r"SLURM_STEP_NUM_TASKS is 4 .*rank=0, world_size=1"):
        BlockLoader(source())
    assert BlockLoader(source(), rank=0, world_size=1).sampler.world_size == 1
    assert BlockLoader(source(), rank=2, world_size=4).sampler.rank == 2
    with pytest.raises(InputError, match="rank 4 of 4"):
        BlockLoader(source(), rank=4, world_size=4)


def test_a_loader_made_before_the_process_group_says_so(tmp_path):
    loader = BlockLoader(source(), rank=2, world_size=4)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/f", rank=0, world_size=1)
    try:
        with pytest.raises(InputError, match=r"rank is 2 .* rank 0 of 1 .*make the loader after"):
            next(iter(loader))
    finally:
        dist.destroy_process_group()


def unpacked(ranks):
    """Every frame's position, as an output of all ranks, and whether this rank's own is right."""
    outputs = []
    for batch in BlockLoader(source(), t_max=4, long="split", batch_slots=8):
        values_BT = batch.sequence_BT * 100.0 + batch.position_BT
        own = unpack(values_BT, batch)
        assert sum(len(one.values) for one in own) == int(batch.valid_BT.sum())
        outputs += unpack(values_BT, batch, gather=True)
        assert outputs[-1].values.untyped_storage().nbytes() == outputs[-1].values.nbytes
    if ranks.world_size > 1:
        uneven = next(iter(BlockLoader(source(), micro_batches=2, balance="uneven")))
        with pytest.raises(InputError, match="balance=uneven"):
            unpack(uneven.position_BT, uneven, gather=True)
    return [(one.sequence, one.first, one.values.tolist()) for one in outputs]


@pytest.mark.dist
def test_outputs_of_all_ranks_come_back_by_sequence(ranks):
    results = ranks.run(unpacked)
    assert all(one == results[0] for one in results)
    seen = {s: [] for s in range(len(LENGTHS))}
    for sequence, first, values in sorted(results[0]):
        assert len(seen[sequence]) == first
        seen[sequence] += values
    assert seen == {s: [s * 100.0 + p for p in range(n)] for s, n in enumerate(LENGTHS)}


ROWS = [7, 0, 2]


def encode(rank, ranks):
    """Outputs and gradients of this rank's rows, those of the encoder, and the rows it computed."""
    draw = torch.Generator().manual_seed(rank)
    rows_I = torch.randn(ROWS[rank], 4, generator=draw, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    encoder, computed = nn.Linear(4, 3).double(), rows_I
    outputs_I = encoder(rows_I)
    if ranks:
        spread = spread_rows(len(rows_I))
        computed = spread.away(rows_I)
        outputs_I = spread.home(encoder(computed).T, dim=1).T
    outputs_I.sin().sum().backward()
    return outputs_I.detach(), rows_I.grad, encoder.weight.grad, len(computed)


def on_a_rank(ranks):
    return encode(ranks.rank, ranks)


@pytest.mark.dist
def test_two_ranks_share_rows_and_give_what_each_gives_alone(two_ranks):
    results = two_ranks.run(on_a_rank)
    alone = [encode(rank, None) for rank in range(2)]
    for result, expected in zip(results, alone, strict=True):
        torch.testing.assert_close(result[:2], expected[:2])
    torch.testing.assert_close(*(sum(one[2] for one in some) for some in (results, alone)))
    assert sorted(one[3] for one in results) == [3, 4]


def test_transfers_leave_all_ranks_as_many_and_move_the_fewest():
    rng = np.random.default_rng(0)
    for ranks in (1, 2, 3, 5):
        for _ in range(30):
            have_R = rng.integers(0, 9, size=ranks)
            given_RR = transfers(have_R)
            assert (given_RR >= 0).all()
            assert (given_RR.sum(axis=1) == have_R).all()
            assert np.ptp(given_RR.sum(axis=0)) <= 1
            moved = given_RR.sum() - given_RR.trace()
            ends = permutations(given_RR.sum(axis=0))
            assert moved == min(np.maximum(have_R - want_R, 0).sum() for want_R in ends)

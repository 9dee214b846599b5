"""Epochs planned a chunk at a time: every frame once, equal steps, exact and elastic positions."""

import hashlib
import json
from itertools import islice

import numpy as np
import pytest

from bload import BlockLoader, BlockSampler, InputError, from_dataset
from bload.loading.chunks import ChunkPlanner, permuted
from tests.bload.conftest import NumberedSource, frames_of, rows_of, samplers, train

LENGTHS = np.random.default_rng(3).integers(1, 13, 200).astype(np.uint8)
FEW = LENGTHS[:90]
SETTINGS = {"packer": "bload", "chunk": 30, "t_max": 12}


def of_ranks(ranks=1, lengths=LENGTHS, **options):
    return samplers(lengths, ranks, **(SETTINGS | options))


def content(steps):
    return [[[block.sequence.tolist() for block in batch] for batch in step] for step in steps]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000])
def test_the_order_is_a_permutation_that_the_keys_draw(size):
    rng, place = np.random.default_rng(size), np.arange(size)
    orders = [permuted(place, size, rng.integers(0, 2**64, 6, dtype=np.uint64)) for _ in range(400)]
    assert all(np.array_equal(np.sort(order), place) for order in orders)
    assert np.array_equal(
        permuted(place[size // 2 :], size, keys := np.arange(6, dtype=np.uint64)),
        permuted(place, size, keys)[size // 2 :],
    )
    counts = np.bincount(np.stack(orders)[:, size // 2], minlength=size)
    assert ((counts - 400 / size) ** 2).sum() * size / 400 < size + 6 * np.sqrt(2 * size)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("chunk", [1, 30, 90, 10**6])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"packer": "bload_exact", "t_max": 8, "long": "split"},
        {"micro_batches": 2, "batch_slots": 36, "multiple_of": 3},
        {"batch_slots": 12 * 500},
    ],
    ids=lambda options: "-".join(map(str, options.values())) or "bload",
)
def test_every_frame_is_trained_once_in_equal_steps_with_fillers_at_the_end(ranks, chunk, options):
    everyone = of_ranks(ranks, FEW, chunk=chunk, **options)
    steps = train(everyone)
    assert frames_of(steps) == [(s, p) for s, n in enumerate(FEW) for p in range(n)]
    assert {sampler.step for sampler in everyone} == {len(steps)} == {everyone[0].steps}
    for step in steps:
        assert {batch.step.frames for batch in step} == {len(frames_of([step]))}
    assert all(block.index >= 0 for step in steps[:-1] for batch in step for block in batch)
    rows = sum(len(batch) for step in steps for batch in step)
    assert rows * everyone[0].t_max == everyone[0].account.processed
    assert content(train(of_ranks(ranks, FEW, chunk=chunk, **options))) == content(steps)


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_position_goes_on_exactly_and_packs_only_from_its_chunk_on(ranks, monkeypatch):
    packed, pack, steps = [], ChunkPlanner.plan_of, train(of_ranks(ranks, FEW))
    monkeypatch.setattr(ChunkPlanner, "plan_of", lambda s, *a: packed.append(a[1]) or pack(s, *a))
    for done in range(len(steps) + 1):
        (sampler, *_), everyone = of_ranks(ranks, FEW), of_ranks(ranks, FEW)
        train([sampler], steps=done) if done else None
        state = sampler.state_dict()
        packed.clear()
        assert content(train(everyone, state)) == content(steps[done:])
        assert sorted({*packed}) == [*range(state["chunk"], 3)]
    assert state["chunk"] == 3 == sampler.planner.chunks
    assert everyone[0].steps == len(steps)
    everyone[0].set_epoch(1)
    assert everyone[0].steps is None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_chunks_resumes_and_knows_its_steps_at_the_end(workers):
    options = {"chunk": 30, "batch_slots": 24, "num_workers": workers, "packer": "bload_exact"}
    options |= {"t_max": 8, "long": "split"}
    source = NumberedSource(LENGTHS)
    loader, rows, states, known = BlockLoader(source, **options), [], [], []
    with pytest.raises(TypeError, match="before the last is packed"):
        len(loader)
    assert str(loader) == "7 chunks of 30 sequences, steps of 1 rank x 3 blocks of 8"
    for batch in loader:
        known.append(loader.steps)
        rows.append(rows_of([batch]))
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert known[0] is None
    assert loader.steps == known[-1] == len(rows)
    for step in (1, len(rows) // 2, len(rows)):
        resumed = BlockLoader(source, **options)
        resumed.load_state_dict(states[step - 1])
        assert resumed.account.steps == len(rows)
        assert [rows_of([batch]) for batch in resumed] == rows[step:]
    first = rows_of(islice(resumed, 3))  # the next epoch
    assert resumed.epoch == 1
    assert first != [row for batch in rows[:3] for row in batch]


def test_a_position_before_chunks_that_are_packed_already_is_the_one_that_was_loaded():
    one, other = (BlockSampler(LENGTHS, **SETTINGS) for _ in range(2))
    states, blocks = [], []
    for (block,) in one:
        states.append(one.state_dict())
        blocks.append(block.sequence.tolist())
    late = next(state for state in states if state["chunk"] == 6)
    number = max(k for k, state in enumerate(states) if state["chunk"] == 3)
    other.load_state_dict(late)
    assert [*other]  # packs chunk 6 alone
    other.load_state_dict(states[number])
    assert other.state_dict() == states[number]
    assert [block.sequence.tolist() for (block,) in other] == blocks[number + 1 :]


def test_a_batch_larger_than_the_rest_of_an_epoch_is_not_filled_up(recwarn):
    (before,), (after,) = of_ranks(), of_ranks(elastic=True, batch_slots=10**6)
    after.load_state_dict(before.state_dict(3))
    assert next(len(blocks) for blocks in after) <= 2 * len(LENGTHS)


def test_what_needs_a_whole_epoch_is_refused():
    for options, name in (
        ({"balance": "uneven"}, "balance=uneven"),
        ({"block_sizes": 2}, "block_sizes"),
        ({"packer": "sampling"}, "packer=sampling"),
        ({"packer": "ragged", "block_sizes": 2, "batch_slots": 24}, "packer=ragged"),
    ):
        with pytest.raises(InputError, match=f"chunk .*{name}"):
            of_ranks(**options)


def test_lengths_stay_a_memory_map(tmp_path):
    np.save(tmp_path / "lengths.npy", LENGTHS)
    (sampler,) = of_ranks(lengths=np.load(tmp_path / "lengths.npy", mmap_mode="r"))
    assert isinstance(sampler.lengths, np.memmap)
    frames = [np.zeros((n, 1)) for n in LENGTHS]
    loader = BlockLoader(from_dataset(frames, length=sampler.lengths), chunk=30)
    assert isinstance(loader.sampler.lengths, np.memmap)
    assert sum(int(batch.valid_BT.sum()) for batch in loader) == LENGTHS.sum()
    of_ranks(lengths=LENGTHS.astype(np.int64))[0].load_state_dict(sampler.state_dict())


def test_blocks_stay_those_of_earlier_versions():
    text = json.dumps(content(train(of_ranks(packer="bload_exact"))))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "9d4c2173676db967"

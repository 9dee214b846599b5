"""The whole path from source to batches: every frame once, and resume at every step."""

import json
from itertools import islice

import numpy as np
import pytest
import torch

from bload import PACKERS, BlockLoader, InputError, account, make_plan


def read_frames(batches) -> list[tuple[int, int]]:
    return [tuple(pair) for batch in batches for pair in batch.frames_BT[batch.valid_BT].tolist()]


def fingerprints(batches) -> list[tuple]:
    """All that a training step sees, but for the process that read it."""
    return [
        (
            batch.frames_BT.tolist(),
            batch.valid_BT.tolist(),
            batch.start_BT.tolist(),
            [target[:2] for target in batch.targets],
        )
        for batch in batches
    ]


def frames_of(plan) -> list[tuple[int, int]]:
    return [
        (int(s), int(first) + i)
        for s, first, length in zip(plan.sequence, plan.first, plan.length, strict=True)
        for i in range(length)
    ]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("ranks", range(1, 10))
def test_every_frame_is_read_once_in_equally_many_batches(
    packer, ranks, numbered_source, small_lengths
):
    loaders = [
        BlockLoader(
            numbered_source(small_lengths), packer, batch_frames=26, rank=r, world_size=ranks
        )
        for r in range(ranks)
    ]
    for epoch in (0, 2):
        for loader in loaders:
            loader.set_epoch(epoch)
        batches = [list(loader) for loader in loaders]
        assert {len(some) for some in batches} == {len(loaders[0])}
        read = [frame for some in batches for frame in read_frames(some)]
        plan = make_plan(small_lengths, packer, epoch=epoch)
        assert sorted(read) == sorted(frames_of(plan))
        assert len(set(read)) == len(read) == small_lengths.sum() - plan.deleted
        shapes = {batch.valid_BT.shape for some in batches for batch in some}
        assert shapes == {(26 // plan.t_max, plan.t_max)}
        slots = sum(batch.valid_BT.numel() for some in batches for batch in some)
        count = loaders[0].account
        assert count == account(plan, ranks * (26 // plan.t_max))
        assert (slots, slots - len(read)) == (count.processed, count.padding + count.filler)


@pytest.mark.parametrize("packer", PACKERS)
def test_resume_at_every_step_gives_exactly_the_rest(packer, numbered_source, small_lengths):
    def loader():
        return BlockLoader(numbered_source(small_lengths), packer, batch_frames=26, seed=5)

    original = loader()
    original.set_epoch(3)
    whole = fingerprints(original)
    states = [original.state_dict() | {"step": 0}]
    for _ in original:
        states.append(json.loads(json.dumps(original.state_dict())))
    assert len(states) == len(whole) + 1
    for step, state in enumerate(states):
        resumed = loader()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        resumed.set_epoch(state["epoch"])
        assert resumed.state_dict() == state
        assert fingerprints(resumed) == whole[step:]
        assert resumed.state_dict()["step"] == len(whole)
        assert fingerprints(resumed) == whole  # and then the epoch is whole again
        resumed.set_epoch(4)
        assert resumed.state_dict()["step"] == 0


def test_workers_that_fetch_early_do_not_move_the_position(numbered_source, small_lengths):
    def loader(workers):
        return BlockLoader(numbered_source(small_lengths), batch_frames=60, workers=workers)

    original = loader(2)
    original.set_epoch(1)
    whole, states = [], [original.state_dict()]
    for batch in original:
        whole += fingerprints([batch])
        states.append(json.loads(json.dumps(original.state_dict())))
    assert [state["step"] for state in states] == list(range(len(whole) + 1))
    alone = loader(0)
    alone.set_epoch(1)
    assert fingerprints(alone) == whole
    resumed = loader(2)
    for step in (*range(len(whole) + 1), 0):
        resumed.load_state_dict(states[step])
        resumed.set_epoch(1)
        assert fingerprints(resumed) == whole[step:]
        alone.load_state_dict(states[step])
        assert fingerprints(alone) == whole[step:]


def test_persistent_workers_see_the_new_epoch(numbered_source, small_lengths):
    with_workers = BlockLoader(numbered_source(small_lengths), batch_frames=26, workers=2)
    alone = BlockLoader(numbered_source(small_lengths), batch_frames=26)
    epochs, readers = [], set()
    for epoch in range(3):
        with_workers.set_epoch(epoch)
        alone.set_epoch(epoch)
        batches = list(with_workers)
        readers |= {target[2] for batch in batches for target in batch.targets}
        epochs.append(fingerprints(batches))
        assert epochs[-1] == fingerprints(alone)
    assert epochs[0] != epochs[1] != epochs[2]
    assert len(readers) == 2  # the same two processes all along


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_left_in_the_middle_begins_anew(workers, numbered_source, small_lengths):
    loader = BlockLoader(numbered_source(small_lengths), batch_frames=26, workers=workers)
    whole = fingerprints(loader)
    assert fingerprints(islice(loader, 3)) == whole[:3]
    assert loader.state_dict()["step"] == 3
    assert fingerprints(loader) == whole
    assert fingerprints(islice(loader, 2)) == whole[:2]
    loader.set_epoch(1)
    assert loader.state_dict()["step"] == 0
    other = fingerprints(loader)
    assert other != whole
    assert len(other) == len(loader)


def test_batches_do_not_depend_on_global_seeds(numbered_source, small_lengths):
    seen = []
    for seed in (0, 1):
        np.random.seed(seed)
        torch.manual_seed(seed)
        loader = BlockLoader(numbered_source(small_lengths), batch_frames=26)
        seen.append(fingerprints(loader))
        loader.set_epoch(1)
        torch.manual_seed(seed + 10)
        seen.append(fingerprints(loader))
    assert seen[0] == seen[2]
    assert seen[1] == seen[3]


def test_a_batch_holds_the_blocks_of_the_plan_in_order(numbered_source, small_lengths):
    loader = BlockLoader(numbered_source(small_lengths), batch_frames=26)
    rows = [
        row[valid].tolist()
        for batch in loader
        for row, valid in zip(batch.frames_BT, batch.valid_BT, strict=True)
    ]
    expected = [
        [
            [int(s), int(f) + i]
            for s, f, n in zip(b.sequence, b.first, b.length, strict=True)
            for i in range(n)
        ]
        for b in map(loader.plan.block, range(loader.plan.blocks))
    ]
    assert rows[: len(expected)] == expected
    assert not any(rows[len(expected) :])


@pytest.mark.filterwarnings("error")
def test_loading_warns_of_nothing(numbered_source, small_lengths):
    assert len(list(BlockLoader(numbered_source(small_lengths), batch_frames=26))) > 1


@pytest.mark.parametrize("kind", [FileNotFoundError, InputError])
def test_a_failed_read_is_not_swallowed(kind, small_lengths, numbered_source):
    class Broken(numbered_source):
        def read(self, sequence, first, length):
            if sequence == 17:
                raise kind("frame 3 of sequence 17 is gone")
            return super().read(sequence, first, length)

    with pytest.raises(kind, match=r"^frame 3 of sequence 17 is gone$"):
        list(BlockLoader(Broken(small_lengths), batch_frames=26))

    with_worker = BlockLoader(Broken(small_lengths), batch_frames=26, workers=1)
    with pytest.raises(kind, match="frame 3 of sequence 17 is gone") as failure:
        list(with_worker)
    # What the user can mend stays one sentence, without the worker's traceback.
    assert ("\n" in str(failure.value)) == (kind is not InputError)
    with_worker.data._iterator._shutdown_workers()  # left to garbage collection it takes 5 s

"""Long sequences in pieces, whose state passes from step to step: nothing cut off, nothing lost."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from bload import BlockLoader, InputError, Plan, from_dataset, make_plan, walk
from bload.schedule.balance import make_schedule
from bload.schedule.carried_rows import place_in_rows

SHAPES = {
    "few are long": np.random.default_rng(1).integers(1, 40, 200),
    "all are long": np.random.default_rng(2).integers(11, 70, 30),
    "one is very long": np.array([3, 5, 400, 2, 9, 10, 10, 1]),
    "none is long": np.random.default_rng(3).integers(1, 11, 50),
    "whole blocks": np.array([20, 30, 10, 40]),
}


def test_pieces_stand_in_one_row_of_successive_steps_on_any_number_of_ranks():
    shares, seven = [(1, 1, 4), (2, 2, 1), (4, 1, 1)], partial(np.random.default_rng, 7)
    for lengths, (ranks, micro, rows) in product(SHAPES.values(), shares):
        plan = make_plan(lengths, "bload_exact", 10, long="carry")
        deal = partial(make_schedule, plan, ranks, 10 * rows, micro_batches=micro)
        schedule = deal(rng=seven())
        trained = schedule.block[schedule.block >= 0]
        assert np.array_equal(np.sort(trained), np.arange(plan.num_blocks))
        grid = place_in_rows(plan, 4, seven())
        whole = grid[(grid >= 0).all(1)]
        if len(whole):
            dropped = deal(last="drop", rng=seven())
            assert np.array_equal(np.sort(dropped.block), np.sort(whole.ravel()))
        place = {}
        for step, rank in product(range(schedule.steps), range(ranks)):
            for batch, number in enumerate(schedule.batches_of(step, rank)):
                for row, block in enumerate(schedule.blocks_of(number).tolist()):
                    place[block] = step, rank, batch, row
                    column = (batch * rows + row) * ranks + rank
                    assert grid[step, column] == block  # the same step for any number of ranks
        for block, before in enumerate(plan.continued.tolist()):
            if before >= 0:
                assert place[block] == (place[before][0] + 1, *place[before][1:])
        # no longer than the longest sequence or all blocks take
        longest = -(-lengths.max() // 10)
        assert schedule.steps <= max(-(-plan.num_blocks // 4), longest) + longest - 1


class Sum:
    """A state that remembers all frames of a sequence."""

    def init_state(self, inputs):
        return torch.zeros_like(inputs)

    def step(self, inputs, state):
        return state + inputs, state + inputs


@pytest.mark.parametrize(("packer", "world_size"), [("naive", 1), ("bload", 2), ("bload_exact", 2)])
@pytest.mark.parametrize("lengths", SHAPES.values(), ids=SHAPES)
def test_what_is_remembered_is_that_of_the_uncut_sequence(lengths, packer, world_size):
    sequences = torch.arange(lengths.sum()).double()[:, None].split(lengths.tolist())
    source, remembered = from_dataset(sequences, lengths), {}
    for rank in range(world_size):
        share = {"batch_slots": 40 // world_size, "rank": rank, "world_size": world_size}
        loader, state = BlockLoader(source, packer, t_max=10, long="carry", **share), None
        for batch in loader:
            sums_BT, state = walk(Sum(), batch.inputs_BT, batch.start_BT, state)
            numbers, values = (of[batch.valid_BT].flatten() for of in (batch.inputs_BT, sums_BT))
            remembered |= zip(numbers.int().tolist(), values.tolist(), strict=True)
    assert len(remembered) == lengths.sum()
    for sequence in sequences:
        sums = sequence.cumsum(0).flatten().tolist()
        assert [remembered[number] for number in sequence.flatten().tolist()] == sums


def test_what_cannot_be_carried_is_refused():
    lengths = SHAPES["few are long"]
    source = from_dataset([torch.zeros(length, 1) for length in lengths], lengths)
    with pytest.raises(InputError, match="long=carry keeps rows together; use balance=none"):
        BlockLoader(source, t_max=10, long="carry", balance="pairs")
    with pytest.raises(InputError, match="long=carry needs blocks of one size"):
        BlockLoader(source, t_max=10, long="carry", block_sizes=[5, 10])
    with pytest.raises(InputError, match="takes 9999 rows and the epoch has"):
        BlockLoader(source, t_max=10, long="carry", batch_slots=99_990)
    with pytest.raises(ValueError, match="cannot go on"):
        Plan(8, [6], [0, 0], [0, 4], [4, 2], [0, 2], carries=True)


def test_no_label_of_a_language_model_is_a_token_of_another_row():
    texts = [torch.arange(n) + 100 * s for s, n in enumerate(SHAPES["few are long"])]
    labels = 0
    for batch in BlockLoader(from_dataset(texts, len), t_max=10, long="carry", batch_slots=40):
        row = {key: values[0] for key, values in batch.transformers().items()}
        (at,) = torch.where(row["labels"][1:] != -100)
        assert torch.equal(row["labels"][1:][at], row["input_ids"][at] + 1)
        labels += len(at)
    pieces = sum(-(-len(text) // 10) for text in texts)
    assert labels == sum(map(len, texts)) - pieces

"""Blocks from a stream: whole sequences, each once, hardly any padding, and exact resume."""

import json
import re
from itertools import islice

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.utils.data import IterableDataset, get_worker_info

from bload import InputError, StreamBlocks, StreamLoader, action_genome_lengths
from bload.loading.window import Window
from bload.packing.bounds import lower_bound
from tests.bload.conftest import NumberedSource, rows_of

LENGTHS = np.random.default_rng(7).integers(1, 13, size=40).tolist()
T_MAX = 12


class Numbers(NumberedSource):
    """Decodes sequences, and says which it has decoded."""

    def __init__(self, lengths=LENGTHS):
        super().__init__(lengths)
        self.decoded = []

    def __call__(self, sequence):
        self.decoded.append(sequence)
        return self.read(sequence, 0, self.lengths[sequence])


def loader_of(stream=range(40), workers=0, context=None, **settings):
    settings = {"t_max": T_MAX, "window": 2, "decode": Numbers()} | settings
    blocks = StreamBlocks(stream, **settings)
    return StreamLoader(blocks, num_workers=workers, multiprocessing_context=context)


def packed(lengths, t_max, size):
    """Blocks of a stream of these lengths; nothing may be held beyond the window."""
    window, blocks, passed = Window(t_max, size), [], 0
    for number, frames in enumerate(lengths):
        window.put(number, frames)
        while window.is_over:
            oldest = window.waiting[0]
            blocks.append(window.take_block())
            passed = 0 if oldest in blocks[-1] else passed + 1
            assert passed <= size  # nothing waits for ever
        assert sum(frames for _, frames in window.waiting) == window.frames <= size * t_max
    return blocks + window.take_all()


@pytest.mark.parametrize(("size", "more"), [(4, 2), (16, 0), (64, 0)])
def test_action_genome_in_random_order_takes_as_few_blocks_as_any_packing(size, more):
    lengths = action_genome_lengths()
    for seed in range(3):
        stream = np.random.default_rng(seed).permutation(lengths)
        blocks = packed(stream.tolist(), 94, size)
        assert len(blocks) <= lower_bound(lengths, 94) + more
        assert 1 - lengths.sum() / (94 * len(blocks)) < 0.005
        found = sorted(pair for block in blocks for pair in block)
        assert found == [*enumerate(stream)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_slots", [T_MAX, 3 * T_MAX])
def test_every_sequence_is_in_one_block_of_one_rank_and_worker(workers, batch_slots):
    whole = [[s, p] for s, n in enumerate(LENGTHS) for p in range(n)]
    for ranks in (1, 3):
        found, readers = [], set()
        for rank in range(ranks):
            options = {"rank": rank, "world_size": ranks, "workers": workers}
            batches = [*loader_of(batch_slots=batch_slots, **options)]
            shapes = {tuple(batch.valid_BT.shape) for batch in batches}
            assert shapes - {(2, T_MAX)} == {(batch_slots // T_MAX, T_MAX)}
            assert [b.frames_in_step for b in batches] == [int(b.valid_BT.sum()) for b in batches]
            rows = rows_of(batches)
            found += [frame for row in rows for frame in row]
            readers |= {target[2] for batch in batches for target in batch.targets}
            # whole: its frames follow one another in a block
            starts = sum(int(batch.start_BT.sum()) for batch in batches)
            assert starts == len({frame[0] for row in rows for frame in row})
        assert sorted(found) == whole
        assert len(readers) == (ranks * workers if workers else 1)


def part(shard, shards):
    return range(shard, 40, shards)


def test_a_function_gives_the_part_of_a_shard_alone():
    plain, parts = (loader_of(items, rank=1, world_size=3) for items in (range(40), part))
    assert rows_of(plain) == rows_of(parts)
    assert {*plain.stream.decode.decoded} == {*range(1, 40, 3)}  # no others are decoded


@pytest.mark.parametrize(("workers", "batch_slots"), [(0, 12), (0, 36), (2, 12)])
def test_resume_at_every_step_gives_exactly_the_rest(workers, batch_slots):
    options = {"workers": workers, "batch_slots": batch_slots}
    original = loader_of(**options)
    whole, states = [], []
    for batch in original:
        whole.append(rows_of([batch]))
        states.append(json.loads(json.dumps(original.state_dict())))
    stops = [5, 12, len(states)] if workers else range(1, len(states) + 1)
    for step in stops:
        state = states[step - 1]
        resumed = loader_of(**options)
        resumed.load_state_dict(state)
        assert json.loads(json.dumps(resumed.state_dict())) == state
        assert [rows_of([batch]) for batch in resumed] == whole[step:], step
        assert resumed.step == len(whole)
        resumed.load_state_dict(state)  # once more: a position stays as it was saved
        assert [rows_of([batch]) for batch in islice(resumed, 2)] == whole[step : step + 2], step
    assert [rows_of([batch]) for batch in resumed] == whole  # and then it begins again


def test_resuming_decodes_only_what_waited():
    original = loader_of()
    done = rows_of(islice(original, 9))
    decode = Numbers()
    resumed = loader_of(decode=decode)
    resumed.load_state_dict(original.state_dict())
    next(iter(resumed))
    placed = {frame[0] for row in done for frame in row}
    waited = {number for number, _ in original.state_dict()["positions"][0]["waiting"]}
    read = original.state_dict()["positions"][0]["read"]
    assert waited == {*range(read)} - placed
    assert {number for number in decode.decoded if number < read} == waited
    assert len(decode.decoded) == len({*decode.decoded})


@pytest.mark.parametrize(("workers", "steps"), [(0, 3), (2, 24)])
def test_a_position_goes_through_torchs_distributed_checkpoint(workers, steps, tmp_path):
    loader = loader_of(workers=workers)
    read = [*islice(loader, steps)]
    dcp.save({"loader0": loader}, checkpoint_id=tmp_path)
    loaded = loader_of(workers=workers)
    dcp.load({"loader0": loaded}, checkpoint_id=tmp_path)
    for batches in ([*read, *loaded], loaded, loader_of()):  # the rest, a pass, another loader
        assert sorted(torch.cat([b.segments.sequence_S for b in batches]).tolist()) == [*range(40)]


def test_a_position_of_another_stream_or_other_options_is_refused():
    original = loader_of()
    list(islice(original, 9))
    state = original.state_dict()
    for sequences, lengths in [(range(5), LENGTHS), (range(40), [n % 12 + 1 for n in LENGTHS])]:
        other = loader_of(sequences, decode=Numbers(lengths))
        other.load_state_dict(state)
        with pytest.raises(InputError, match="not the one of the saved position"):
            next(iter(other))
    for options, words in [
        ({"workers": 2}, "workers was 1 and is 2"),
        ({"t_max": 13, "batch_slots": 26}, "t_max was 12 and is 13; blocks per batch was 1 and"),
    ]:
        with pytest.raises(InputError, match=words):
            loader_of(**options).load_state_dict(state)
    own = state["positions"][0]
    changed = [{"read": own["read"] + 1}, {"passed": "x"}, {"waiting": []}, {"last": [[]]}]
    wrong = [{"positions": [own | change]} for change in changed]
    wrong += [{"positions": []}, {"step": 8}, {"stream": []}]
    for damaged in [{}, {"stream": state["stream"]}, *(state | change for change in wrong)]:
        with pytest.raises(InputError, match="no state_dict"):
            original.load_state_dict(damaged)


def frames(*lengths):
    return [torch.zeros(length, 2) for length in lengths]


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        (frames(3, 13), "sequence 1 of the stream has 13 frames but t_max is 12; .* t_max to 13"),
        (frames(3, 0), "sequence 1 of the stream has 0 frames but t_max is 12; leave it out"),
        ([*frames(3), torch.zeros(3, 4)], r"has float32 \(4,\) as inputs, but .* float32 \(2,\)"),
        ([], "the stream has no sequence"),
        ([[1, 2]], "no decode= is given.* has inputs of type list; give a tensor"),
    ],
)
def test_what_cannot_be_packed_is_refused_in_one_sentence(sequences, words):
    for workers in (0, 1) if "13 frames" in words else (0,):
        with pytest.raises(InputError, match=f"^[^\n]*{words}"):
            list(loader_of(sequences, workers, decode=None))


def test_wrong_options_are_refused_at_once():
    assert len(rows_of(loader := loader_of(batch_slots=2**60, window=2**60))) == 1024
    assert "t_max 12" in repr(loader)
    for sequences, options, words in [
        (iter([1]), {}, "can be read only once"),
        ([1], {"window": 0}, "window is 0"),
        ([1], {"rank": 2, "world_size": 2}, "rank 2 of 2 ranks"),
    ]:
        with pytest.raises(InputError, match=words):
            loader_of(sequences, **options)
    with pytest.raises(InputError, match=r"is a list; give StreamBlocks\(sequences, t_max\)"):
        StreamLoader([1])
    with pytest.raises(InputError, match="'batch_slots' is no argument of a StreamLoader"):
        StreamLoader(StreamBlocks([1], 8), batch_slots=16)


def test_dicts_arrays_and_targets_per_sequence():
    items = [({"a": np.full((n, 3), n), "b": torch.ones(n)}, n % 2) for n in (3, 8, 5)]
    options = {"targets_per": "sequence", "batch_slots": 24, "pad": {"a": -7}}
    loader = loader_of(items, decode=None, t_max=np.int64(12), window=1, **options)
    (batch,) = loader
    assert batch.inputs_BT["a"][~batch.valid_BT].unique().tolist() == [-7]
    sequences = batch.sequence_BT[batch.start_BT].tolist()
    assert sorted(sequences) == [0, 1, 2]
    assert batch.targets_S.tolist() == [items[sequence][1] for sequence in sequences]


def test_a_loaded_position_or_another_iteration_ends_one_and_a_look_at_a_batch_does_not_move():
    loader, whole = loader_of(), [rows_of([batch]) for batch in loader_of()]
    batches = iter(loader)
    list(islice(batches, 3))
    state = loader.state_dict()
    list(islice(batches, 4))
    loader.load_state_dict(state)
    with pytest.raises(InputError, match="load_state_dict moved it"):
        next(batches)
    batches = iter(loader)
    next(batches)
    assert [rows_of([batch]) for batch in loader] == whole[3:]
    with pytest.raises(InputError, match="load_state_dict moved it"):
        next(batches)
    assert [rows_of([batch]) for batch in loader] == whole


def trained(ranks, sequences, workers=0, stop=None, states=None):
    """Rows, frames of every step, and the state, of one rank."""
    context = "fork" if workers else None  # a rank's own would import torch in each
    loader = loader_of(range(sequences), workers, context)
    if states:
        loader.load_state_dict(states[ranks.rank])
    batches = [*islice(loader, stop)]
    shapes = {(batch.inputs_BT.dtype, tuple(batch.inputs_BT.shape)) for batch in batches}
    return rows_of(batches), [b.frames_in_step for b in batches], loader.state_dict(), shapes


@pytest.mark.dist
@pytest.mark.parametrize("sequences", [1, 40])
def test_ranks_take_equal_steps_and_those_without_sequences_get_padding(two_ranks, sequences):
    one, other = two_ranks.run(trained, sequences)
    assert len(one[0]) == len(other[0]) > 0
    assert one[1] == other[1] == [len(a) + len(b) for a, b in zip(one[0], other[0], strict=True)]
    assert one[3] == other[3]
    found = sorted(frame for row in one[0] + other[0] for frame in row)
    assert found == [[s, p] for s in range(sequences) for p in range(LENGTHS[s])]
    if sequences == 1:
        assert other[0] == [[]]


@pytest.mark.dist
@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_resume_where_they_stopped(two_ranks, workers):
    whole = two_ranks.run(trained, 40, workers)
    for stop in (3, len(whole[0][0]))[: 2 - workers // 2]:
        before = two_ranks.run(trained, 40, workers, stop)
        states = [one[2] for one in before]
        after = two_ranks.run(trained, 40, workers, None, states)
        for rank in range(2):
            assert before[rank][0] + after[rank][0] == whole[rank][0]
            assert before[rank][1] + after[rank][1] == whole[rank][1]


def refused(ranks, case, workers=0):
    """Steps taken and what each rank says, where one has other options or a bad sequence."""

    def part(shard, shards):
        for number in range(ranks.rank) if case == "alone" else range(shard, 40, shards):
            nth = ranks.rank, number // shards
            width = 2 if (case, shard) in (("kind of rank 1", 1), ("kind of worker 3", 3)) else 1
            yield torch.zeros(99 if case in (nth, "alone") else 3, width)

    window = 1 + (case == "window") * ranks.rank
    context = "fork" if workers else None
    loader = loader_of(part, workers, context, t_max=8, window=window, decode=None)
    with pytest.raises(InputError) as refusal:
        list(loader)
    return loader.step, str(refusal.value)


@pytest.mark.dist
@pytest.mark.parametrize(
    ("case", "workers", "words"),
    [
        ("window", 0, ["window is 1 on rank 0 and 2 on rank 1; give every rank the same"] * 2),
        ((0, 0), 0, ["99 frames but t_max is 8", "rank 0 refused a sequence"]),
        ("alone", 0, ["rank 1 refused a sequence", "99 frames but t_max is 8"]),
        ((1, 9), 0, ["rank 1 refused a sequence", "99 frames but t_max is 8"]),
        ("kind of rank 1", 0, [r"float32 \(2,\).* float32 \(1,\)"] * 2),
        ("kind of worker 3", 2, ["rank 1 refused", r"float32 \(2,\).* float32 \(1,\)"]),
    ],
)
def test_ranks_that_differ_or_refuse_a_sequence_all_end_in_the_same_step(
    two_ranks, case, workers, words
):
    (step, sentence), (other_step, other_sentence) = two_ranks.run(refused, case, workers)
    assert step == other_step
    assert re.search(words[0], sentence)
    assert re.search(words[1], other_sentence)


class Sharding(IterableDataset):
    """Forty numbers; a worker yields its own part."""

    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id if info else 0, 40, info.num_workers if info else 1))


class Whole(IterableDataset):
    def __iter__(self):
        return iter(range(40))


@pytest.mark.parametrize(("stream", "sharded"), [(Sharding(), True), (Whole(), False)])
def test_a_stream_that_may_shard_itself_has_to_say_so_and_is_read_once(stream, sharded):
    with pytest.raises(InputError, match=r"sharded=True .* sharded=False"):
        loader_of(stream, 2)
    rows = rows_of(loader_of(stream, 2, sharded=sharded))
    assert sum(map(len, rows)) == sum(LENGTHS)
    stream.set_epoch = (epochs := []).append
    loader_of(stream).set_epoch(3)  # one worker of one rank
    assert epochs == [3]
    loader, resumed = (loader_of(stream, 2, sharded=sharded) for _ in range(2))
    first = rows_of(islice(loader, 3))  # the second worker is next
    resumed.load_state_dict(loader.state_dict())
    assert first + rows_of(resumed) == rows
    with pytest.raises(InputError, match=r"function of .* returned Whole, which may divide"):
        list(loader_of(lambda shard, shards: Whole(), 2))


class Unreadable(Numbers):
    def __call__(self, sequence):
        if sequence % 7 == 3:  # the last, among others
            raise type("Local", (OSError,), {})(f"file {sequence} is broken")  # cannot be sent
        return super().__call__(sequence)


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_items_are_skipped_if_asked_and_counted_to_the_end(workers, capsys):
    with pytest.raises(RuntimeError if workers else OSError, match="file 3 is broken"):
        list(loader_of(decode=Unreadable(), workers=workers))
    options = {"decode": Unreadable(), "skip": OSError, "workers": workers}
    loader, resumed = (loader_of(range(39), **options) for _ in range(2))  # the last is broken
    begun = rows_of(islice(loader, 5))
    resumed.load_state_dict(loader.state_dict())
    whole = rows_of(loader)
    assert {pair[0] for row in whole for pair in row} == {*range(39)} - {*range(3, 39, 7)}
    assert "6 of the stream's items were skipped" in capsys.readouterr().err
    assert begun + rows_of(resumed) == whole
    assert loader.skipped == resumed.skipped == 6
    with pytest.raises(InputError, match="13 frames but t_max"):  # what is refused stays an error
        list(loader_of([13], decode=torch.zeros, skip=OSError))

"""What a source may return, and what becomes of it in a batch."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch.utils.data import DataLoader

from bload import BlockLoader, InputError, from_dataset

LENGTHS = np.array([3, 5, 2, 9, 1, 4, 9, 6])
SEQUENCE = {"targets_per": "sequence"}


class Source:
    """Frame p of sequence s is ``s * 100 + p``; what `read` returns is up to `make`."""

    lengths = LENGTHS

    def __init__(self, make, targets_per="frame"):
        self.make = make
        self.targets_per = targets_per

    def read(self, sequence, first, length):
        return self.make(sequence * 100 + torch.arange(first, first + length))


def batches(source, **options):
    """All batches of two ranks, fillers among them."""
    options = {"t_max": 10, "batch_slots": 20, "world_size": 2} | options
    return [batch for rank in (0, 1) for batch in BlockLoader(source, rank=rank, **options)]


def numbers(batch):
    return (batch.sequence_BT * 100 + batch.position_BT)[batch.valid_BT]


def test_a_dict_of_tensors_and_arrays_becomes_one_of_blocks():
    def make(numbers):
        frames = {"image": numbers[:, None, None].expand(-1, 2, 3).to(torch.uint8)}
        frames["sound"] = numbers.numpy() / 4
        return frames, {"label": numbers, "weight": numbers / 2}

    for batch in batches(Source(make), pad={"sound": 7.5}):
        blocks, slots = batch.valid_BT.shape
        assert batch.inputs_BT["image"].shape == (blocks, slots, 2, 3)
        assert batch.inputs_BT["image"].dtype == torch.uint8
        assert batch.inputs_BT["sound"].dtype == torch.float64
        wanted = numbers(batch)
        assert torch.equal(batch.inputs_BT["sound"][batch.valid_BT], wanted.double() / 4)
        assert (batch.inputs_BT["sound"][~batch.valid_BT] == 7.5).all()
        assert not batch.inputs_BT["image"][~batch.valid_BT].any()
        assert torch.equal(batch.targets_BT["label"][batch.valid_BT], wanted)
        assert (batch.targets_BT["label"][~batch.valid_BT] == -100).all()
        assert not batch.targets_BT["weight"][~batch.valid_BT].any()
        assert batch.targets == ()
        assert batch.targets_S is None


@pytest.mark.parametrize("t_max", [4, 10])
def test_a_target_per_sequence_is_one_per_segment(t_max):
    def make(numbers):
        sequence = int(numbers[0]) // 100
        target = {"label": sequence, "text": [sequence] * sequence, "vector": np.ones(3)}
        return numbers, target | {"half": torch.tensor(sequence / 2)}

    for batch in batches(Source(make, "sequence"), t_max=t_max, long="split"):  # fillers too
        sequence_S = batch.sequence_BT[batch.segments.block_S, batch.segments.slot_S]
        assert batch.targets == ()
        assert torch.equal(batch.targets_S["label"], sequence_S)
        assert torch.equal(batch.targets_S["half"], sequence_S / 2)
        assert batch.targets_S["text"] == tuple([int(s)] * int(s) for s in sequence_S)
        assert batch.targets_S["vector"].shape == (len(sequence_S), 3)
        assert batch.to("meta").targets_S["label"].device.type == "meta"


def good(n):
    return {"a": n, "b": n.float()}, n


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda n: (good(n)[0], n[1:]), "8 targets, not 9"),
        (lambda n: ({"a": n, "b": n.float()[1:]}, n), "8 and 9 inputs, not 9"),
        (lambda n: ({"a": n}, n), r".*a: int64 \(\)}.* b: float32 \(\)"),
        (lambda n: ({"a": n, "b": n.double()}, n), r".*b: float64 \(\).*b: float32 \(\)"),
        (lambda n: good(n)[0], "nothing as targets, but the first has int64"),
        (lambda n: n.tolist(), "inputs of type list"),
        (lambda n: {"a": n, "b": {"c": n}}, "inputs 'b' of type dict"),
        (lambda n: (good(n)[0], 3), 'targets of type int.*targets_per="sequence"'),
        (lambda n: (n, 1, 2), "3 parts; give inputs"),
        (lambda n: n.float().requires_grad_(), "a tensor that requires a gradient"),
    ],
)
def test_what_read_may_not_return_is_reported_with_the_call(make, words):
    source = Source(lambda n: make(n) if n[0] // 100 == 6 else good(n))
    for workers in (0, 1) if "float64" in words else (0,):
        with pytest.raises(InputError, match=rf"^read\(6, 0, 9\) returned {words}[^\n]*$"):
            batches(source, num_workers=workers)


def test_arrays_of_any_layout_are_taken():
    def make(numbers):
        backwards = numbers.flip(0).numpy()[::-1]
        foreign = numbers.numpy().astype(">f4")
        fixed = numbers.numpy().copy()
        fixed.flags.writeable = False
        return {"a": backwards, "b": foreign, "c": fixed}

    for batch in batches(Source(make)):
        for inputs_BT in batch.inputs_BT.values():
            assert torch.equal(inputs_BT[batch.valid_BT], numbers(batch).to(inputs_BT.dtype))


def test_pad_values_are_of_a_key_and_fit_its_dtype():
    source = Source(lambda numbers: (numbers.to(torch.uint8), numbers.to(torch.uint8)))
    for pad, dtype, value in (({}, torch.int64, -100), ({"targets": 255}, torch.uint8, 255)):
        for batch in batches(source, pad=pad):
            assert batch.targets_BT.dtype == dtype
            assert (batch.targets_BT[~batch.valid_BT] == value).all()
            assert torch.equal(batch.targets_BT[batch.valid_BT], numbers(batch) % 256)
            assert batch.inputs_BT.dtype == torch.uint8
            assert not batch.inputs_BT[~batch.valid_BT].any()
            shifted = batch.next_tokens(batch.inputs_BT)
            assert shifted.dtype == torch.int64
            assert (shifted[~batch.valid_BT] == -100).all()
    for pad, words in (({"labels": 0}, "key 'labels'"), ({"targets": -100}, "cannot hold")):
        with pytest.raises(InputError, match=words):
            batches(source, pad=pad)


def test_any_map_style_data_set_is_a_source():
    sequences = [{"x": np.arange(n) + 0.5, "y": [n] * n, "n": n, "of": n % 2} for n in LENGTHS]

    class Columns(list):
        column_names = ("x", "y", "n", "of")

        def __getitem__(self, key):
            return [one[key] for one in self] if isinstance(key, str) else super().__getitem__(key)

    lengths = ("n", "y", LENGTHS, lambda item: len(item["y"]))
    for data, length in product((sequences, Columns(sequences)), lengths):
        source = from_dataset(data, length, inputs="x", targets="y")
        assert source.lengths.tolist() == LENGTHS.tolist()
        for batch in batches(source, t_max=4, long="split"):
            assert torch.equal(batch.inputs_BT[batch.valid_BT], numbers(batch) % 100 + 0.5)
            wanted = torch.as_tensor(LENGTHS)[batch.sequence_BT[batch.valid_BT]]
            assert torch.equal(batch.targets_BT[batch.valid_BT], wanted)
    source = from_dataset(
        sequences, LENGTHS, inputs=["x", "y"], targets="of", targets_per="sequence"
    )
    for batch in batches(source):
        assert set(batch.inputs_BT) == {"x", "y"}
        assert set(batch.targets_S.tolist() if len(batch.targets_S) else []) <= {0, 1}


BOXES = [[[0.5] * 4] * (1 + (n + p) % 3) for n in LENGTHS for p in range(n)]


def boxes_of(sequence):
    """Boxes of every frame, one to three each."""
    first = int(LENGTHS[:sequence].sum())
    return BOXES[first : first + LENGTHS[sequence]]


@pytest.mark.parametrize("objects", [False, True])
def test_boxes_of_frames_stay_lists_whatever_their_numbers(objects):
    """In item 0 every frame has another number of boxes, or with `objects` any number."""
    items = [
        {"x": torch.zeros(n, 1), "boxes": boxes_of(s), "label": [s] * n}
        for s, n in enumerate(LENGTHS)
    ]
    if objects:
        items[0]["boxes"] = [[[0.5] * 4]] * 3  # would make a tensor of item 0
    keys = {"inputs": "x", "targets": ["boxes", "label"], "objects": "boxes" if objects else False}
    for batch in batches(from_dataset(items, LENGTHS, **keys), t_max=9):
        sequences, positions = (
            of[batch.valid_BT].tolist() for of in (batch.sequence_BT, batch.position_BT)
        )
        boxes = tuple(items[s]["boxes"][p] for s, p in zip(sequences, positions, strict=True))
        assert batch.targets["boxes"] == boxes
        assert batch.targets_BT["label"][batch.valid_BT].tolist() == sequences
    pairs = [(torch.zeros(n, 1), [torch.rand(1 + p, 4) for p in range(n)]) for n in LENGTHS]
    (batch, *_) = batches(from_dataset(pairs, LENGTHS))
    shapes = [(p + 1, 4) for p in batch.position_BT[batch.valid_BT].tolist()]
    assert [tuple(boxes.shape) for boxes in batch.targets] == shapes


def test_item_0_decides_what_becomes_a_tensor_and_of_which_dtype():
    def dtypes(make, **options):
        source = from_dataset([make(n) for n in LENGTHS], LENGTHS, **options)
        batch = batches(source)[0]
        return batch.inputs_BT.dtype, getattr(batch.targets_BT, "dtype", batch.targets_S)

    assert dtypes(lambda n: ([0.5] * n, [n] * n)) == (torch.float32, torch.int64)
    assert dtypes(lambda n: (np.ones(n), torch.ones(n).half())) == (torch.float64, torch.float16)
    floats = from_dataset([([0.5 if n == 3 else 1] * n) for n in LENGTHS], LENGTHS)
    assert sum(batch.inputs_BT.sum() for batch in batches(floats)) == LENGTHS.sum() - 1.5


def test_lists_of_arrays_are_inputs_of_one_shape_and_targets_of_any():
    frames = [np.full(2, frame, np.float32) for frame in range(3)]
    batch = next(iter(BlockLoader(from_dataset([(frames, frames)], length=lambda _: 3))))
    assert batch.inputs_BT.tolist() == [[[0, 0], [1, 1], [2, 2]]]
    assert [target.tolist() for target in batch.targets] == [[0, 0], [1, 1], [2, 2]]


def test_targets_of_different_shapes_per_sequence_are_kept_as_objects():
    for make in (torch.arange, lambda n: n if n > 3 else "text", lambda n: np.ones(n)):
        pairs = [(torch.zeros(n), make(int(n))) for n in LENGTHS]
        for batch in batches(from_dataset(pairs, LENGTHS, **SEQUENCE, objects=True)):
            expected = [pairs[s][1] for s in batch.segments.sequence_S.tolist()]
            assert all(a is b for a, b in zip(batch.targets_S, expected, strict=True))
            assert batch.to("meta").targets_S is batch.targets_S


FRAMES = [torch.zeros(n, 1) for n in LENGTHS]
TABLE = [{"x": np.arange(n) + 0.5, "y": [n] * n, "n": n} for n in LENGTHS]


@pytest.mark.parametrize(
    ("items", "length", "options", "words"),
    [
        ([(one,) for one in FRAMES], LENGTHS, {}, "item 0 is a tuple of 1; give pairs"),
        ([(one, one) for one in FRAMES], len, {}, r"len of item 0 is 2.*len\(item\[0\]\)"),
        (FRAMES, LENGTHS, {"targets": "y"}, "item 0 is a Tensor, not a dict; leave"),
        (FRAMES, LENGTHS, {"objects": True}, "the targets are none"),
        ({"x": FRAMES}, LENGTHS, {"inputs": "x"}, "dict has not; choose one split"),
        (iter(FRAMES), "n", {}, "list_iterator has not; .* StreamLoader"),
        (DataLoader(FRAMES), LENGTHS, {}, "DataLoader has not"),
        (FRAMES, LENGTHS[1:], {}, "7 numbers but the data set has 8"),
        (FRAMES, "n", {}, "no column 'n'; give length as a list"),
        (FRAMES, LENGTHS - (LENGTHS > 5), {}, r"item \d has \d frames of inputs but its length"),
        ([(one, 1) for one in FRAMES], LENGTHS, {}, 'targets_per="sequence"'),
        ([one.to_sparse() for one in FRAMES], LENGTHS, {}, "give dense CPU tensors"),
        ([one.to("meta") for one in FRAMES], LENGTHS, {}, "give dense CPU tensors"),
        ([csr_array(one) for one in FRAMES], LENGTHS, {}, "type csr_array .* give inputs as a ten"),
        ([[one, one] for one in FRAMES], LENGTHS, {}, "item 0 is a list of 2, not 3; give pairs"),
        (TABLE, LENGTHS, {"inputs": "z"}, "no 'z'; it has 'x', 'y', 'n'"),
        (TABLE, LENGTHS, {}, "item 0 is a dict of 'x', 'y', 'n'; name its keys: inputs="),
        (TABLE, LENGTHS, {"inputs": ["x", "n"]}, "item 0 has one value of n but its length is 3"),
    ],
)
def test_a_data_set_that_is_read_wrongly_is_refused_with_the_way_out(items, length, options, words):
    with pytest.raises(InputError, match=words):
        batches(from_dataset(items, length, **options))


@pytest.mark.parametrize(
    ("make", "words", "options"),
    [
        (lambda n: ([0.5] * n, [0 if n == 3 else 0.5] * n), "of one dtype and shape, or", {}),
        (lambda n: torch.zeros(n, 1 + (n > 3)), r"dataset\[\d\] .* \(2,\) as .* \(1,\)", {}),
        (lambda n: (torch.zeros(n), np.full(n, 2**63, np.uint64)), "-100, which .*uint64", {}),
        (lambda n: (torch.zeros(n), torch.zeros((), requires_grad=True)), "gradient", SEQUENCE),
        (lambda n: ([[1.0], [1.0, 2.0], [0.0]] * n)[:n], "inputs of item 0 are of type list", {}),
        (lambda n: ([2**24 + 1] if n > 3 else [0.5]) * n, "of the dtype of item 0", {}),
        (lambda n: (torch.zeros(n), [2**64 - 1 if n > 3 else 1] * n), "objects=", {}),
        (lambda n: (torch.zeros(n), n), "objects names 'b', .*'targets'", {"objects": "b"}),
        (lambda n: (torch.zeros(n), [0.5] * n), r'targets_per="frame" if .* of \d fr', SEQUENCE),
    ],
)
def test_items_that_are_not_like_item_0_are_refused(make, words, options):
    with pytest.raises(InputError, match=words):
        batches(from_dataset([make(n) for n in LENGTHS], LENGTHS, **options))


def test_what_is_no_source_is_refused():
    for source in (object(), SimpleNamespace(lengths=[3]), Source, [torch.zeros(3)]):
        with pytest.raises(InputError, match=r"source is .*from_dataset\(it"):
            BlockLoader(source)


def test_pandas_objects_are_read_by_position():
    pd = pytest.importorskip("pandas")
    arrays = [np.full((n, 1), s) for s, n in enumerate(LENGTHS)]
    label = [*range(8)][::-1]
    table = pd.DataFrame({"x": arrays, "n": LENGTHS}, index=label)
    for dataset, length, options in ((table["x"], table["n"], {}), (table, "n", {"inputs": "x"})):
        for batch in batches(from_dataset(dataset, length, **options)):
            assert (batch.inputs_BT[..., 0] == batch.sequence_BT.clamp(0)).all()
    names = pd.Series([f"v{s}" for s in range(8)], index=label)
    with pytest.raises(InputError, match=r"DataFrameGroupBy has not; .* items for .* a groupby"):
        from_dataset(table.groupby("n"), len, inputs="x")
    with pytest.raises(InputError, match="sequence v3 has 9 frames"):
        BlockLoader(from_dataset(arrays, LENGTHS), t_max=8, names=names)
    source = from_dataset(arrays, LENGTHS)
    del arrays[3:]  # from here on a list that is too short
    with pytest.raises(IndexError) as caught:
        list(BlockLoader(source, names=names))
    assert any(" of v" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_of_sequences_and_sequences_that_are_tables_are_read(library):
    frames = pytest.importorskip(library)
    groups = [frames.DataFrame({"x": [0.5] * n, "y": [n] * n}) for n in LENGTHS]
    table = frames.DataFrame({"n": LENGTHS, **{key: [[*g[key]] for g in groups] for key in "xy"}})
    keys = {"inputs": "x", "targets": "y"}
    for source in (from_dataset(groups, len, **keys), from_dataset(table, "n", **keys)):
        for batch in batches(source):
            assert (batch.inputs_BT == 0.5 * batch.valid_BT).all()
            lengths_BT = torch.tensor(LENGTHS)[batch.sequence_BT]
            assert torch.equal(batch.targets_BT, lengths_BT.where(batch.valid_BT, -100))
    with pytest.raises(InputError, match="item 0 is a dict of 'x', 'y'; name its keys"):
        batches(from_dataset(groups, len))
    assert len(batches(from_dataset([group["x"] for group in groups], len)))


class Buffers:
    """Returns the same memory again and again, as tensors and arrays, frames and targets."""

    lengths = LENGTHS

    def __init__(self, targets_per):
        self.targets_per, self.memory = targets_per, torch.zeros(2, 9, dtype=torch.int64)

    def read(self, sequence, first, length):
        frames, targets = self.memory[:, :length]
        frames[:], targets[:] = sequence, sequence
        inputs = {"a": frames, "b": frames.numpy(), "c": frames[:, None].expand(-1, 2)}
        return inputs, targets if self.targets_per == "frame" else targets[0]


@pytest.mark.parametrize("targets_per", ["frame", "sequence"])
def test_memory_that_is_used_again_holds_the_right_values(targets_per):
    for batch in batches(Buffers(targets_per)):
        wanted_BT = batch.sequence_BT.where(batch.valid_BT, 0)
        for values_BT in batch.inputs_BT.values():
            assert torch.equal(values_BT.reshape(*wanted_BT.shape, -1).amax(2), wanted_BT)
        if targets_per == "frame":
            assert torch.equal(batch.targets_BT.where(batch.valid_BT, 0), wanted_BT)
        else:
            assert torch.equal(batch.targets_S, batch.segments.sequence_S)


FRAMES = torch.zeros(9, 5)


@pytest.mark.parametrize("item", [FRAMES, (FRAMES, torch.zeros(9)), (FRAMES, [["a"]] * 9)])
@pytest.mark.parametrize("targets_per", ["frame", "sequence"])
def test_frames_are_copied_once_whatever_the_targets(item, targets_per, monkeypatch):
    clone, shapes = torch.Tensor.clone, []
    monkeypatch.setattr(torch.Tensor, "clone", lambda one: shapes.append(one.shape) or clone(one))
    list(BlockLoader(from_dataset([item], [9], targets_per=targets_per)))
    assert shapes.count(FRAMES.shape) == 1

"""Claims that hold for every packer, on every shape of lengths, for every seed and epoch."""

import hashlib
import pickle

import numpy as np
import pytest

from bload import PACKERS, InputError, make_plan
from bload.packing.packers import find_packer
from bload.schedule.carried_rows import place_in_rows

CLIPS = [name for name in PACKERS if find_packer(name).cuts_clips]
WHOLE = [name for name in PACKERS if not find_packer(name).cuts_clips]
SAMPLING = [{}, {"clips": "all"}, {"place": "first"}, {"clips": "all", "place": "first"}]
SAMPLING += [{"place": "fixed"}]
CASES = [(packer, {}) for packer in PACKERS] + [("sampling", options) for options in SAMPLING[1:]]
CASES += [("mix", {"place": "first"}), ("mix", {"place": "fixed"}), ("bload", {"draw": "length"})]


def _shapes() -> dict[str, tuple[np.ndarray, int | None]]:
    rng = np.random.default_rng(123)
    return {
        "ones alone": (np.ones(83, int), 10),
        "t_max 1": (np.ones(9, int), 1),
        "all longer than half": (rng.integers(11, 21, 60), 20),
        "skewed": (np.minimum(rng.geometric(0.1, 150), 64), 64),
        "heavy tail": (np.clip(rng.pareto(1.0, 120) * 3, 1, 90).astype(int), 90),
        "two kinds": (rng.choice([1, 40], 70), 41),
        "uniform": (rng.integers(1, 51, 130), None),
        "single sequence": (np.array([13]), None),
        "large t_max": (rng.integers(1, 40, 30), 100_000),
    }


SHAPES = _shapes()


def frame_counts(plan) -> np.ndarray:
    """Count how often each frame of the data set appears in the plan."""
    beginning = np.cumsum(plan.sequence_lengths) - plan.sequence_lengths
    frames = [
        np.arange(beginning[s] + first, beginning[s] + first + length)
        for s, first, length in zip(plan.sequence, plan.first, plan.length, strict=True)
    ]
    return np.bincount(np.concatenate(frames), minlength=plan.frames)


def pack_shape(shape, packer, options, seed=0, epoch=0):
    lengths, t_max = SHAPES[shape]
    return make_plan(lengths, packer, None if packer in CLIPS else t_max, seed, epoch, **options)


def digest(plan) -> str:
    arrays = (plan.sequence_lengths, plan.sequence, plan.first, plan.length, plan.offsets)
    parts = [np.array([plan.t_max]), *arrays]
    if not plan.has_one_size:
        parts.append(plan.slots)
    text = b"|".join(part.astype("<i8").tobytes() for part in parts)
    return hashlib.sha256(text).hexdigest()[:16]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_frame_appears_once_or_is_counted_as_deleted(shape):
    for packer, options in CASES:
        for seed, epoch in [(0, 0), (5, 3), (2**40, 10_000)]:
            case = packer, options, seed, epoch
            plan = pack_shape(shape, packer, options, seed, epoch)
            counts = frame_counts(plan)
            assert counts.max() == 1, case
            assert (counts == 0).sum() == plan.deleted, case
            if packer in WHOLE:
                assert sorted(plan.sequence) == [*range(len(plan.sequence_lengths))], case
                assert np.array_equal(plan.length, plan.sequence_lengths[plan.sequence]), case
            filled = [plan.block(b).length.sum() for b in range(plan.num_blocks)]
            assert 1 <= min(filled) <= max(filled) <= plan.t_max, case
            assert plan.padding == sum(plan.slots - filled), case
            assert plan.num_blocks >= plan.lower_bound, case


def test_plans_follow_seed_and_epoch_alone_and_leave_global_random_states():
    for packer, options in CASES:
        digests = []
        for seed, epoch in [(3, 4), (3, 5), (4, 4), (4, 3), (3, 4)]:
            np.random.seed(len(digests))
            before = pickle.dumps(np.random.get_state())
            digests.append(digest(pack_shape("skewed", packer, options, seed, epoch)))
            assert pickle.dumps(np.random.get_state()) == before, (packer, options)
        assert digests[-1] == digests[0], (packer, options)
        assert len(set(digests)) == 4, (packer, options)


def test_splitting_long_sequences_deletes_nothing_and_truncating_the_rest():
    lengths = SHAPES["skewed"][0]
    for packer in WHOLE:
        for t_max in (1, 7, 20, 40):
            case = packer, t_max
            split = make_plan(lengths, packer, t_max, long="split")
            assert (frame_counts(split) == 1).all(), case
            assert split.num_segments == np.ceil(lengths / t_max).sum(), case
            assert split.length.max() == t_max, case
            cut = make_plan(lengths, packer, t_max, long="truncate")
            assert cut.deleted == np.maximum(lengths - t_max, 0).sum() > 0, case
            assert not cut.first.any(), case
            assert sorted(cut.sequence) == [*range(len(lengths))], case
        with pytest.raises(InputError, match=r"sequence 1 has 9 frames .* t_max is 8; .* to 11"):
            make_plan([8, 9, 11], packer, 8)


def test_clips_are_whole_side_by_side_and_begin_anywhere():
    lengths, _ = SHAPES["uniform"]
    for options in SAMPLING:
        plan = make_plan(lengths, "sampling", 12, **options)
        assert set(plan.length) == {12}
        per_sequence = np.bincount(plan.sequence, minlength=len(lengths))
        several = lengths // 12 if "clips" in options else lengths >= 12
        assert np.array_equal(per_sequence, several), options
        if options == {"place": "first"}:
            assert not plan.first.any()
        if "place" in options:
            other = make_plan(lengths, "sampling", 12, seed=3, epoch=1, **options)
            both = [p.first[np.lexsort((p.first, p.sequence))] for p in (plan, other)]
            assert np.array_equal(*both), options
    for packer, options in (("mix", {}), ("sampling", {}), ("sampling", SAMPLING[1])):
        plans = [make_plan([10], packer, 4, epoch=epoch, **options) for epoch in range(150)]
        wanted = range(3 if options else 7)
        assert {plan.first.min() for plan in plans} == {*wanted}, (packer, options)


def test_wrong_arguments_are_refused_by_name_and_number():
    for arguments, words in [
        ({"packer": "best"}, "'best'.*naive, sampling, mix, single, bucket, ragged, bload"),
        ({"packer": "mix", "long": "split"}, "'long' is neither .* mix .*place"),
        ({"packer": "bload", "long": "x"}, "long is 'x'.* error, split, truncate or carry"),
        ({"packer": "single", "long": "carry"}, "long is 'carry'.* error, split or truncate"),
        ({"packer": "sampling", "clips": "x"}, "clips is 'x'.* one or all"),
        ({"packer": "sampling", "multiple_of": 8}, "no sequence has t_max .*; lower .*multiple_of"),
        ({"packer": "bload", "t_max": 4}, "or set long=split, carry or truncate"),
        ({"packer": "ragged", "t_max": 4}, "or set long=split or truncate"),
        ({"packer": "bload", "seed": -1, "epoch": 3}, "seed is -1; give a whole number from 0 on"),
    ]:
        with pytest.raises(InputError, match=words):
            make_plan([2, 3, 5], **arguments)
    for lengths in ([], [[1, 2]], [0, 1], [2.5], ["3"], [np.nan], [1e30]):
        with pytest.raises(InputError, match="length"):
            make_plan(lengths, "bload")


GOLDEN = {
    "naive": "439d28ec35b705c0",
    "sampling": "ecaccf2cd4c646cf",
    "mix": "bf8a416c18934706",
    "single": "49f70904895a5c2f",
    "bucket": "3de48271a6925fc5",
    "ragged": "479a48066c7d3b9c",
    "bload": "d21a08e8cc2add30",
    "bload_exact": "c1a9d3bd3a22b9cf",
    "sampling clips=all": "802133fd62f56dd2",
    "sampling place=first": "b914e3176b203132",
    "sampling clips=all place=first": "525d2a84cbd6d368",
    "sampling place=fixed": "b7fc271b9baf2f23",
    "mix place=first": "e75cd954dd23d39f",
    "mix place=fixed": "08f06d70fb3aa2da",
    "bload draw=length": "a77a7fc645186f5a",
    "naive long=split": "995e166d575b12e8",
    "single long=split": "82cd4be5e285835e",
    "bucket long=split": "ae3446e67564bd44",
    "ragged long=split": "eb0c6259dbfed34d",
    "bload long=split": "b8cc3df534a53494",
    "bload_exact long=split": "06c7cbb248105032",
}
"""If one of these changes, runs of an earlier version can no longer be resumed or repeated."""


def test_plans_are_the_same_on_every_machine_and_in_every_version():
    i = np.arange(300)
    lengths = 3 + (7 * i * i + 13 * i) % 60
    cases = [*CASES, *((packer, {"long": "split"}) for packer in WHOLE)]
    for packer, options in cases:
        size = 25 if packer in CLIPS else 50 if "long" in options else 70
        plan = make_plan(lengths, packer, size, seed=42, epoch=7, **options)
        name = " ".join([packer, *(f"{key}={value}" for key, value in options.items())])
        assert digest(plan) == GOLDEN[name], name
    carried = make_plan(lengths[:60], "bload_exact", 25, seed=42, epoch=7, long="carry")
    rows = place_in_rows(carried, 4, np.random.default_rng(7)).astype("<i8").tobytes()
    assert hashlib.sha256(rows).hexdigest()[:16] == "7e3f09cd6671d55a"
    lengths[150] = 70  # the only one that fills a block
    assert digest(make_plan(lengths, "bload_exact", 70, seed=42, epoch=7)) == "131626440b079cae"

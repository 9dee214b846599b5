"""Lengths, their files, and plans: a plan that holds what it should, or one sentence."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bload import BALANCES, BlockSampler, Cost
from bload.lengths import read_lengths
from bload.packing.packers import PACKERS, make_plan
from bload.packing.plan import Plan
from tests.hostile.conftest import hostile
from tests.hostile.damage import SCALARS, TEXTS, VALUES, damaged


def npy(array: np.ndarray) -> bytes:
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


HUGE = npy(np.arange(3)).replace(b"(3,), ", b"(99999999999,), ".ljust(6))
CSV = "name,length\na,3\nb,4\n"
PARQUET = pd.DataFrame({"name": ["a", "b"], "length": [3, 4]}).to_parquet()
FILES = st.one_of(
    st.tuples(st.just(".npy"), damaged(npy(np.arange(1, 9))) | st.just(HUGE)),
    st.tuples(st.just(".npy"), st.sampled_from(["f8", "U4", "O", "M8[s]", "?", "c16"]).map(
        lambda kind: npy(np.zeros(3, kind)))),
    st.tuples(st.just(".json"), damaged(b'{"a": 3, "b": 4}')),
    st.tuples(st.just(".json"), VALUES.map(lambda value: json.dumps(value).encode())),
    st.tuples(st.just(".json"), st.sampled_from([b"[" * 10**5, b'{"a":' * 10**5, b"9" * 5000])),
    st.tuples(st.just(".csv"), damaged(CSV.encode())),
    st.tuples(st.just(".csv.gz"), damaged(gzip.compress(CSV.encode()))),
    st.tuples(st.just(".parquet"), damaged(PARQUET)),
    st.tuples(st.just(".csv"), st.lists(TEXTS, max_size=5).map(
        lambda cells: f"length,{','.join(cells)}\n1,2\n".encode(errors="surrogateescape"))),
    st.tuples(st.sampled_from([".txt", "", ".NPY"]), damaged(b"3\n4 # a\n\n5\n")),
)  # fmt: skip


@hostile(0.34)
@given(file=FILES)
def test_a_file_gives_positive_lengths_or_one_sentence(refused_or, tmp_path_factory, file):
    suffix, content = file
    path = tmp_path_factory.getbasetemp() / f"lengths{suffix}"
    path.write_bytes(content)
    lengths = refused_or(read_lengths, path)
    if lengths is not None:
        assert lengths.dtype == np.int64
        assert lengths.min() >= 1


LENGTHS = st.one_of(
    st.lists(st.integers(1, 30), min_size=1, max_size=40),
    st.lists(st.sampled_from([1, 2, 10**6, 10**9, 10**15, 2**62]), min_size=1, max_size=6),
    st.lists(SCALARS, max_size=5),
    VALUES,
)
SLOTS = (
    st.none() | st.integers(-1, 60) | st.sampled_from([10**6, 2**31 - 1, 2**31, 2**70]) | SCALARS
)
OPTIONS = st.dictionaries(
    st.sampled_from(["long", "draw", "place", "clips", "last", "rng", "x"])
    | st.sampled_from(["long", "block_sizes", "buckets", "batch_slots", "t_max"]),
    st.sampled_from(["split", "truncate", "error", "video", "length", "first", "all", "one"])
    | st.sampled_from(["carry", [7], [5, 30], [30, 15, 5], 1, 2, 50])
    | VALUES,
    max_size=2,
)


@hostile(0.28, few=40)
@given(
    lengths=LENGTHS,
    packer=st.sampled_from([*PACKERS]) | TEXTS,
    t_max=SLOTS,
    seed=st.integers(0, 5) | SCALARS,
    options=OPTIONS,
)
def test_a_plan_holds_every_frame_once_or_is_refused(
    refused_or, lengths, packer, t_max, seed, options
):
    plan = refused_or(make_plan, lengths, packer, **{"t_max": t_max} | options, seed=seed)
    if plan is not None:
        assert isinstance(plan, Plan)
        assert plan.frames == sum(map(int, lengths)) == plan.placed + plan.deleted
        assert plan.slots.sum() == plan.processed == plan.placed + plan.padding
        assert plan.slots.max(initial=0) <= plan.t_max
        assert plan.deleted >= 0
        refused_or(lambda: plan.lower_bound)
        if packer in ("naive", "bload", "bload_exact") and options.get("long") != "truncate":
            assert plan.deleted == 0
            assert plan.blocks >= plan.lower_bound


COUNTS = st.integers(1, 5) | st.sampled_from([0, 64, 10**7]) | SCALARS
DEALT = st.fixed_dictionaries(
    {},
    optional={
        "balance": st.sampled_from([*BALANCES]) | TEXTS,
        "micro_batches": COUNTS,
        "world_size": COUNTS,
        "batch_slots": SLOTS,
        "block_sizes": COUNTS | st.lists(st.integers(-1, 60), max_size=4),
        "cost": st.tuples(*[st.sampled_from([0.0, 1.0, 0.5, -1.0, float("nan")])] * 5),
        "balance_options": OPTIONS | st.just({"steps": 3}) | st.just({"levels": (0.5,)}),
        "last": st.sampled_from(["fill", "drop"]),
        "long": st.sampled_from(["split", "carry"]),
        "even": st.booleans(),
    },
)


@hostile(0.1, few=60)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    packer=st.sampled_from([*PACKERS]),
    t_max=st.none() | st.integers(8, 40) | SLOTS,
    options=DEALT,
)
def test_a_deal_holds_every_block_once_in_equal_steps_or_is_refused(
    refused_or, lengths, packer, t_max, options
):
    def dealt_on(**known):
        cost = {"cost": Cost(*known.pop("cost"))} if "cost" in known else {}
        return BlockSampler(lengths, packer, t_max=t_max, rank=0, **known, **cost).schedule

    schedule = refused_or(dealt_on, **{"world_size": 1} | options)
    if schedule is not None:
        trained = schedule.block[schedule.block >= 0]
        assert len(np.unique(trained)) == len(trained)
        assert options.get("last") == "drop" or len(trained) == schedule.plan.blocks
        assert len(schedule.shares) == schedule.steps * schedule.ranks + 1
        assert (np.diff(schedule.shares) >= 1).all()
        account = schedule.account
        assert account.processed == account.frames + account.padding + account.filler
        assert account.frames + account.deleted == schedule.plan.frames


@pytest.mark.parametrize("packer", [*PACKERS])
def test_sizes_of_a_billion_take_no_memory(refused_or, packer):
    never_full = [n * 10**8 for n in (5, 4, 4, 4, 3)]  # so that bload_exact goes on
    sizes = (([10**9, 10**9], None), ([10**9, 3, 3], 10**9), ([10**12], 1), (never_full, 10**9))
    for lengths, t_max in sizes:
        refused_or(make_plan, lengths, packer, t_max)
        refused_or(make_plan, lengths, packer, t_max, long="split")


@pytest.mark.parametrize("packer", [*PACKERS])
def test_more_frames_than_can_be_counted_are_refused(refused_or, packer):
    for options in ({}, {"long": "truncate"}):
        assert refused_or(make_plan, [2**62] * 4, packer, 100, **options) is None

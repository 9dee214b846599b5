"""Ways to feed ranks take turns through their epochs, and are compared round by round."""

import pandas as pd
import pytest

from bload import InputError
from experiments.alternatives import measure, tables
from experiments.interleaved import jobs_of, steps_by_round
from tests.training.jobs import one_rank


def test_two_ways_take_turns_through_a_whole_epoch(command_line):
    overrides = command_line("loader=single,bload_exact", "model.padding=computed")
    rows = pd.DataFrame(measure(one_rank(), overrides, share=1, rounds=2))
    assert rows["round"].tolist() == [1, 2, 1, 2]
    assert {*rows.frames} == {174}
    assert rows.frames_per_second.min() > 0
    single, exact = rows.iloc[0], rows.iloc[2]
    assert single.steps == 3  # of 3 of the 8 videos, about as many as fill 64 frames
    assert (single.padded, single.one_shape) == (0, False)
    assert (exact.padded, exact.one_shape) == (45 * exact.steps - 174, True)


def test_a_way_is_compared_with_exact_blocks_of_the_same_round_on_as_many_ranks():
    known = {"padded": 7, "deleted": 0, "steps": 9, "imbalance": 1.5, "one_shape": True}
    rates = {("bload_exact", 1): (100, 200), ("naive", 1): (25, 50)}  # the machine sped up
    rates |= {("bload_exact", 2): (300, 300), ("naive", 2): (100, 400)}
    rows = [
        {"loader": loader, "padding": "computed", "ranks": ranks, "frames_per_second": rate}
        | {**known, "peak_mib": rate}
        for (loader, ranks), of in rates.items()
        for rate in of
    ]
    exact, naive = tables(pd.DataFrame(rows)).splitlines()[2:]
    assert [of.strip() for of in exact.split("|")[2:4]] == ["1", "1"]
    words = [of.strip() for of in naive.split("|")[1:-1]]
    assert words[:2] == ["`naive`, computed", "0.25 [0.25, 0.25]"]
    assert words[2].startswith("0.67 [")
    assert words[3:] == ["7", "0", "9", "1.500", "50", "yes"]


def test_rounds_share_the_steps_evenly():
    assert steps_by_round(100, 0.3, 4) == [8, 7, 7, 8]
    with pytest.raises(InputError, match="a round has no step"):
        steps_by_round(100, 0.03, 4)


def test_jobs_are_those_of_the_sweep_with_what_is_chosen():
    jobs = jobs_of("balance", ["loader.deal=cards,queue", "train.seed=3"])
    found = [(job.loader.name, job.loader.deal, job.train.seed) for job in jobs]
    assert found == [
        (name, deal, 3) for name in ("ragged", "bucket") for deal in ("cards", "queue")
    ]

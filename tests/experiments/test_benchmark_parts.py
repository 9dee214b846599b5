"""Parts of the benchmark: their searches and bounds are right, and what they lack they say."""

from types import SimpleNamespace

import numpy as np
import pytest

from bload import make_plan
from bload.fewest import fewest_blocks
from experiments.benchmarks import small_sets
from experiments.benchmarks.flow_bound import flow_bound
from experiments.benchmarks.step_profile import OTHER, kind_of


@pytest.mark.parametrize("t_max", [10, 100])
def test_the_search_finds_the_fewest_blocks(t_max):
    rng = np.random.default_rng(t_max)
    for _ in range(100):
        lengths = small_sets.draw(rng, t_max)
        fewest = fewest_blocks(lengths, t_max, rng)[1]
        descending = sorted(lengths.tolist(), reverse=True)
        assert small_sets.fits(descending, fewest, t_max)
        assert not small_sets.fits(descending, fewest - 1, t_max)


def test_a_packer_that_wastes_blocks_is_caught(monkeypatch):
    def wasteful(lengths, packer, t_max, seed):
        return make_plan(lengths, "naive", t_max)

    monkeypatch.setattr(small_sets, "make_plan", wasteful)
    for t_max, sets, at_bound, shown, above, _ in small_sets.measure(quick=True):
        assert at_bound + shown + above == sets, t_max
        assert above > sets / 4


@pytest.mark.parametrize(
    ("lengths", "t_max", "least"),
    [
        (np.repeat([33, 40], [1500, 1500]), 100, 1250),  # 33 33 33 and 40 40, or 33 33 and 40
        (np.repeat([6, 7, 10], 2000), 15, 4000),
        (np.array([5, 5, 5]), 9, 3),
        (np.array([1]), 1, 1),
    ],
)
def test_the_linear_program_bounds_the_blocks(lengths, t_max, least):
    assert flow_bound(lengths, t_max) == least


def test_too_many_lengths_have_no_linear_program():
    assert flow_bound(np.arange(1, 1001), 1000) is None


def test_a_call_is_of_the_kind_that_it_is_within():
    def call(name, within=None):
        return SimpleNamespace(name=name, cpu_parent=within)

    assert kind_of(call("aten::bmm")) == "matrix products"
    assert kind_of(call("aten::tanh")) == OTHER

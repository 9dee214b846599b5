"""The laws are those that were published, within a stated bound."""

import math

import numpy as np
import pytest

from experiments.length_laws import LAWS

EVEN = (np.arange(400_000) + 0.5) / 400_000
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


@each_law
def test_the_published_quantiles_come_back(law):
    assert len(law.percent) == len(law.quantiles)
    assert (law.percent[0], law.percent[-1]) == (0, 100)
    inner = slice(1, -1)
    found = np.percentile(law.lengths(EVEN), law.percent[inner])
    assert found == pytest.approx(law.quantiles[inner], rel=0.01, abs=1)
    ends = law.lengths(np.array([0, 1]))
    assert ends.tolist() == [law.quantiles[0], round(law.quantiles[-1])]


@each_law
def test_mean_and_standard_deviation_are_the_published_ones_within_2_and_5_percent(law):
    lengths = law.lengths(EVEN)
    assert lengths.mean() == pytest.approx(law.mean, rel=0.02)
    assert math.isnan(law.std) or lengths.std() == pytest.approx(law.std, rel=0.05)


@each_law
def test_draws_are_whole_lengths_of_the_seed(law):
    one, same, other = law.draw(500, 1), law.draw(500, 1), law.draw(500, 2)
    assert one.dtype == np.int64
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert law.quantiles[0] <= one.min() <= one.max() <= round(law.quantiles[-1])
    assert law.quantiles[0] < law.cut < round(law.quantiles[-1])

"""Intervals agree with scipy's own, and fewer than two values have none."""

import numpy as np
import pytest
from scipy import stats

from experiments.report.statistics import difference, estimate, paired_difference, ratio

ONES, OTHERS = [60.1, 61.4, 59.2, 60.8], [57.0, 58.9, 57.7]


def test_the_interval_of_a_mean_is_students():
    found = estimate(ONES)
    wanted = stats.t.interval(0.95, 3, np.mean(ONES), stats.sem(ONES))
    assert (found.low, found.high) == pytest.approx(wanted)
    assert found.deviation == pytest.approx(np.std(ONES, ddof=1))
    assert found.count == 4


def test_the_interval_of_a_difference_is_welchs():
    found = difference(ONES, OTHERS)
    wanted = stats.ttest_ind(ONES, OTHERS, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_the_interval_of_pairs_is_that_of_their_differences():
    ones, others = dict(enumerate(ONES)), {3: 60.0, 1: 60.9, 0: 59.0, 9: 1.0}
    found = paired_difference(ones, others)
    wanted = stats.ttest_rel([ONES[i] for i in (0, 1, 3)], [59.0, 60.9, 60.0])
    interval = wanted.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.count, paired_difference({0: 1.0}, {1: 1.0})) == (3, None)


def test_a_ratio_turns_round_with_its_interval():
    one, other = ratio(ONES, OTHERS), ratio(OTHERS, ONES)
    assert (one.mean, one.low) == pytest.approx((1 / other.mean, 1 / other.high))
    assert one.low < one.mean < one.high


@pytest.mark.parametrize("found", [estimate([3.0]), difference([3.0], ONES), ratio([3.0], [2.0])])
def test_one_value_has_no_interval(found):
    assert not found.has_interval
    assert found.high is None


def test_equal_values_have_an_interval_of_no_width():
    found = difference([2.0, 2.0], [1.0, 1.0])
    assert (found.low, found.high) == (1.0, 1.0)


def test_nothing_has_no_mean():
    with pytest.raises(ValueError, match="no value"):
        estimate([])

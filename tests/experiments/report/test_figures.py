"""Means, differences and ratios have the intervals that textbooks give."""

import math

import pytest
from scipy import stats

from experiments.report.exhibits import cell, estimate, ratio

ONES, OTHERS = [60.1, 61.4, 59.2, 60.8], [57.0, 58.9, 57.7]


def test_intervals_are_students_and_welchs():
    """By hand: squares sum to 2.6875 and 1.846667, which makes 4.41209 degrees of freedom."""
    mean, half = 60.375, 3.182446 * math.sqrt(2.6875 / 3 / 4)
    found = estimate([*ONES, math.nan])
    assert [found.mean, found.low, found.high] == pytest.approx([mean, mean - half, mean + half])
    mean -= 173.6 / 3
    half = stats.t.ppf(0.975, 4.41209) * math.sqrt(2.6875 / 3 / 4 + 1.846667 / 2 / 3)
    wide = estimate(ONES, OTHERS)
    wanted = [mean, mean - half, mean + half]
    assert [wide.mean, wide.low, wide.high] == pytest.approx(wanted, abs=1e-4)
    assert (found.count, wide.count) == (4, 3)


def test_a_ratio_turns_round_with_its_interval():
    for paired, others in ((False, OTHERS), (True, [57.0, 58.9, 57.7, 55.5])):
        one, other = ratio(ONES, others, paired=paired), ratio(others, ONES, paired=paired)
        assert (one.mean, one.low) == pytest.approx((1 / other.mean, 1 / other.high))
        assert one.low < one.mean < one.high
    assert ratio([2.0, 8.0], [1.0, 4.0], paired=True).mean == pytest.approx(2)


def test_fewer_than_two_values_have_no_interval_and_equal_ones_no_width():
    for found in (estimate([3.0]), estimate([3.0], ONES), ratio([3.0], [2.0])):
        assert math.isnan(found.low)
    assert math.isnan(estimate([]).mean)
    for found, mean in ((estimate([2.0, 2.0], [1.0, 1.0]), 1), (estimate([0.0, 0.0]), 0)):
        assert (found.mean, found.low, found.high) == (mean, mean, mean)


def test_cells_say_figures_as_people_write_them():
    for value, form, text in (
        *((1234.4, "0", "1,234"), (0.04, "+1", "0"), (-3.25, "+1", "-3.2"), (None, "0", "-")),
        *((math.nan, "1", "-"), ("text", "1", "text"), (estimate([1.0]), "2", "1.00")),
        (estimate([1.0, 3.0]), "+1", "+2.0 [-10.7, +14.7]"),
    ):
        assert cell(value, form) == text

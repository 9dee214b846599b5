"""Means, differences and ratios have the intervals that textbooks give."""

import math

import pytest

from experiments.report.figures import cell, difference, estimate, ratio

ONES, OTHERS = [60.1, 61.4, 59.2, 60.8], [57.0, 58.9, 57.7]


def ends(found):
    return [found.mean, found.low, found.high]


def test_the_interval_of_a_mean_is_students():
    """By hand: mean 60.375, deviation 0.93941, t of 3 degrees of freedom at 97.5 % 3.18245."""
    half = 3.182446 * 0.9394147 / 2
    assert ends(estimate(ONES)) == pytest.approx([60.375, 60.375 - half, 60.375 + half], rel=1e-6)
    assert estimate([*ONES, math.nan]).count == 4


def test_the_interval_of_a_difference_is_welchs():
    """By hand: errors 0.220625 and 0.303333, so 4.32 degrees of freedom and t = 2.6955."""
    variance = 0.8825 / 4 + 0.9633333 / 3
    freedom = variance**2 / ((0.8825 / 4) ** 2 / 3 + (0.9633333 / 3) ** 2 / 2)
    assert freedom == pytest.approx(4.3398, abs=0.2)
    found = difference(ONES, OTHERS)
    half = found.high - found.mean
    assert found.mean == pytest.approx(60.375 - 57.8666667)
    assert found.low == pytest.approx(found.mean - half)
    assert 2.57 < half / math.sqrt(variance) < 2.78  # t at 97.5 % of 5 and of 4 degrees
    assert found.count == 3


def test_a_ratio_turns_round_with_its_interval():
    for paired, others in ((False, OTHERS), (True, [57.0, 58.9, 57.7, 55.5])):
        one, other = ratio(ONES, others, paired=paired), ratio(others, ONES, paired=paired)
        assert ends(one) == pytest.approx([1 / other.mean, 1 / other.high, 1 / other.low])
        assert one.low < one.mean < one.high
    assert ratio([2.0, 8.0], [1.0, 4.0], paired=True).mean == pytest.approx(2)


def test_fewer_than_two_values_have_no_interval_and_equal_ones_no_width():
    for found in (estimate([3.0]), difference([3.0], ONES), ratio([3.0], [2.0])):
        assert math.isnan(found.low)
        assert math.isnan(found.high)
    assert math.isnan(estimate([]).mean)
    assert ends(difference([2.0, 2.0], [1.0, 1.0])) == [1, 1, 1]
    assert ends(estimate([0.0, 0.0])) == [0, 0, 0]


def test_cells_say_figures_as_people_write_them():
    shown = {
        **{(1234.4, "0"): "1,234", (0.04, "+1"): "0", (-3.25, "+1"): "-3.2", (None, "0"): "-"},
        **{(math.nan, "1"): "-", ("text", "1"): "text", (estimate([1.0]), "2"): "1.00"},
    }
    for (value, form), text in shown.items():
        assert cell(value, form) == text
    assert cell(estimate([1.0, 3.0]), "+1") == "+2.0 [-10.7, +14.7]"
    assert cell(estimate([1.0, 3.0])).figure.count == 2

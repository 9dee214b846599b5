from fractions import Fraction
from itertools import product

from datasets.frames.sizes import fit, stored_size

SIZES = [(h, w) for h in (1, 2, 3, 47, 64, 270, 480) for w in (1, 2, 5, 64, 99, 360, 480)]


def test_the_fitted_size_is_the_largest_of_the_same_shape_that_fits():
    for size_hw, into_hw in product(SIZES, SIZES):
        fitted_hw = fit(size_hw, into_hw)
        assert fit(fitted_hw, into_hw) == fitted_hw
        scale = min(Fraction(into, size) for size, into in zip(size_hw, into_hw, strict=True))
        assert any(fitted == into for fitted, into in zip(fitted_hw, into_hw, strict=True))
        for size, into, fitted in zip(size_hw, into_hw, fitted_hw, strict=True):
            assert 1 <= fitted <= into
            assert abs(fitted - size * scale) <= Fraction(1, 2) or fitted == 1


def test_known_sizes():
    assert fit((270, 480), (64, 64)) == (36, 64)
    assert fit((480, 270), (64, 64)) == (64, 36)
    assert fit((270, 480), (540, 960)) == (540, 960)
    assert fit((1, 1000), (64, 64)) == (1, 64)
    assert fit((2, 5), (1, 9)) == (1, 3), "2.5 rounds up"
    assert {stored_size((270, 480), short) for short in (None, 270, 271, 999)} == {(270, 480)}
    assert stored_size((480, 270), 99) == (176, 99)
    assert stored_size((2, 5), 1) == (1, 3), "2.5 rounds up"

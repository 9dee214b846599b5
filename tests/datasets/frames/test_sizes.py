from fractions import Fraction
from itertools import product

from datasets.frames.files import fit

SIDES = (1, 2, 5, 64, 270, 480)


def test_the_fitted_size_is_the_largest_of_the_same_shape_that_fits():
    for size_hw, into_hw in product(product(SIDES, SIDES), repeat=2):
        fitted_hw = fit(size_hw, into_hw)
        scale = min(Fraction(into, size) for size, into in zip(size_hw, into_hw, strict=True))
        assert any(fitted == into for fitted, into in zip(fitted_hw, into_hw, strict=True))
        for size, into, fitted in zip(size_hw, into_hw, fitted_hw, strict=True):
            assert 1 <= fitted <= into
            assert abs(fitted - size * scale) <= Fraction(1, 2) or fitted == 1
    assert fit((2, 5), (1, 9)) == (1, 3), "2.5 rounds up"

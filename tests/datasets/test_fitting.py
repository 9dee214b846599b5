from fractions import Fraction

import pytest

from datasets.frames.fitting import fit

SIZES = [(h, w) for h in (1, 2, 3, 47, 64, 270, 480) for w in (1, 2, 5, 64, 99, 360, 480)]


@pytest.mark.parametrize("into_hw", SIZES)
@pytest.mark.parametrize("size_hw", SIZES)
def test_the_fitted_size_is_the_largest_of_the_same_shape_that_fits(size_hw, into_hw):
    fitted_hw = fit(size_hw, into_hw)
    scale = min(Fraction(into, size) for size, into in zip(size_hw, into_hw, strict=True))
    assert any(fitted == into for fitted, into in zip(fitted_hw, into_hw, strict=True))
    for size, into, fitted in zip(size_hw, into_hw, fitted_hw, strict=True):
        assert 1 <= fitted <= into
        assert abs(fitted - size * scale) <= Fraction(1, 2) or fitted == 1


@pytest.mark.parametrize("size_hw", SIZES)
def test_a_size_fits_into_itself_and_a_fitted_size_stays_as_it_is(size_hw):
    assert fit(size_hw, size_hw) == size_hw
    fitted_hw = fit(size_hw, (64, 64))
    assert fit(fitted_hw, (64, 64)) == fitted_hw


def test_known_sizes():
    assert fit((270, 480), (64, 64)) == (36, 64)
    assert fit((480, 270), (64, 64)) == (64, 36)
    assert fit((270, 480), (540, 960)) == (540, 960)
    assert fit((1, 1000), (64, 64)) == (1, 64)
    assert fit((2, 5), (1, 9)) == (1, 3), "2.5 rounds up"

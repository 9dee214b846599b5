"""The size of an image that fits into another size."""


def fit(size_hw: tuple[int, int], into_hw: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the largest image of the shape of `size_hw` inside `into_hw`.

    Each side is rounded to the nearest pixel, is at least 1 and no more than that of `into_hw`;
    a small image grows. All sizes are positive.
    """
    (height, width), (high, wide) = size_hw, into_hw
    if high * width <= wide * height:
        return high, min(wide, max(1, _divide(width * high, height)))
    return min(high, max(1, _divide(height * wide, width))), wide


def _divide(a: int, b: int) -> int:
    """a / b rounded to the nearest integer, a half up: exact for integers of any size."""
    return (2 * a + b) // (2 * b)

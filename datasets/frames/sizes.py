"""Sizes of pictures in whole pixels.

Sides are rounded in exact integer arithmetic to the nearest pixel, a half up.
"""


def fit(size_hw: tuple[int, int], into_hw: tuple[int, int]) -> tuple[int, int]:
    """Return the size (h, w) of the largest image of the shape of `size_hw` inside `into_hw`.

    Each side is at least 1 and at most that of `into_hw`; a small image grows. All sizes are
    positive.
    """
    (height, width), (most_h, most_w) = size_hw, into_hw
    if most_h * width <= most_w * height:
        return most_h, min(most_w, max(1, _scaled(width, most_h, height)))
    return min(most_h, max(1, _scaled(height, most_w, width))), most_w


def _scaled(side: int, numerator: int, denominator: int) -> int:
    return (2 * side * numerator + denominator) // (2 * denominator)

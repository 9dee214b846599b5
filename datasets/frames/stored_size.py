"""The size at which frames are stored on disk."""


def stored_size(size_hw: tuple[int, int], short_side: int | None) -> tuple[int, int]:
    """Height and width of the file of a frame whose native size is `size_hw`.

    Native if `short_side` is None or no smaller than the frame's own; else the short side is
    `short_side` and the other one follows, rounded to the nearest pixel (a half up).
    """
    height, width = size_hw
    short = min(size_hw)
    if short_side is None or short <= short_side:
        return height, width
    return _scale(height, short_side, short), _scale(width, short_side, short)


def _scale(side: int, numerator: int, denominator: int) -> int:
    """side x numerator / denominator, rounded exactly; never below 1 for side >= denominator."""
    return (2 * side * numerator + denominator) // (2 * denominator)

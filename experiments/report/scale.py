"""Axes: from figures to places, with ticks at round figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic axis over `low` to `high`, drawn from place `begin` to `end`.

    A logarithmic axis shows 0 on its lowest tick, which then says 0.
    """

    low: float
    high: float
    begin: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False
    zero: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            value = max(value, self.low) if self.zero else value
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def text(self, tick: float) -> str:
        if self.zero and tick == self.low:
            return "0"
        for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(tick) >= size and not (size == 1e3 and abs(tick) < 1e4):
                return f"{tick / size:g}{letter}"
        return f"{tick:,.10g}"


def scale(
    values: Sequence[float], begin: float, end: float, *, log: bool = False, most: int = 6
) -> Scale:
    """The axis that holds all values, with at most about `most` ticks."""
    if log:
        return _log_scale(values, begin, end)
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = _round_step((high - low) / (most - 1))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) for i in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], begin, end, ticks)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten from `least` on."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-9))


def _log_scale(values: Sequence[float], begin: float, end: float) -> Scale:
    positive = [value for value in values if value > 0] or [1.0]
    zero = len(positive) < len(values)
    low = math.floor(math.log10(min(positive)) + 1e-9) - zero
    high = max(math.ceil(math.log10(max(positive)) - 1e-9), low + 1)
    ticks = tuple(10.0**power for power in range(low, high + 1))
    if high - low == 1 and not zero:  # one decade: 1, 2, 5, 10
        ticks = tuple(times * 10.0**low for times in (1, 2, 5, 10))
    return Scale(ticks[0], ticks[-1], begin, end, ticks, True, zero)

"""Line and interval charts as SVG whose colours are classes, so that light and dark pages serve.

Every series has a colour and a mark of its own, so that neither is needed to tell them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from experiments.report.scale import Scale, scale

WIDTH, HEIGHT = 440, 284
STYLES = 6
LETTER = 8.0
"""Room for a letter of a label; the page sets them at 12, on phones at 14."""


@dataclass(frozen=True, slots=True)
class Point:
    """A figure with the lowest and highest of what it sums up."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A line with marks; `style` numbers colour and mark.

    A string for `style`, ``bound`` or ``dotted``, is a broken line without marks.
    """

    label: str
    points: tuple[Point, ...]
    style: int | str
    line: bool = True


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of an interval chart."""

    label: str
    value: float
    low: float | None
    high: float | None
    style: int


def line_chart(
    series: Sequence[Series],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    from_zero: bool = False,
) -> str:
    """Lines over a common plane, bands where points have a low and a high.

    `from_zero` makes both linear axes begin at 0.
    """
    points = [point for one in series for point in one.points]
    values_x = [point.x for point in points] + [0.0] * (from_zero and not log_x)
    values_y = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    values_y += [0.0] * (from_zero and not log_y)
    top, bottom = 32, HEIGHT - 48
    y = scale(values_y, bottom, top, log=log_y)
    left = 10 + LETTER * max(len(y.text(tick)) for tick in y.ticks)
    x = scale(values_x, left + 6, WIDTH - 16, log=log_x)
    parts = [_axes(x, y, left, x_label, y_label)]
    for one in series:
        parts.append(_band(one, x, y))
    for one in series:
        parts.append(_line(one, x, y))
    return _svg("".join(parts), HEIGHT)


def interval_chart(bars: Sequence[Bar], label: str) -> str:
    """One row a figure: its mark and its interval, on one scale."""
    row, top = 26, 8
    bottom = top + row * len(bars)
    left = 12 + LETTER * max(len(bar.label) for bar in bars)
    values = [v for bar in bars for v in (bar.value, bar.low, bar.high) if v is not None]
    x = scale(values, left, WIDTH - 16, most=5)
    parts = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text x="{x(t):.1f}" y="{bottom + 18}" text-anchor="middle">{x.text(t)}</text>'
        for t in x.ticks
    ]
    parts.append(_label(label, (left + WIDTH - 16) / 2, bottom + 37, "middle"))
    for i, bar in enumerate(bars):
        y = top + row * (i + 0.5)
        parts.append(
            f'<text x="{left - 10:.1f}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(bar.label)}</text>"
        )
        said = f"{bar.label}: {bar.value:,.4g}"
        if bar.low is not None and bar.high is not None:
            said += f" ({bar.low:,.4g} to {bar.high:,.4g})"
            parts.append(
                f'<line class="line {_name(bar.style)}" y1="{y:.1f}" y2="{y:.1f}" '
                f'x1="{x(bar.low):.1f}" x2="{x(bar.high):.1f}"/>'
            )
        parts.append(_mark(bar.style, x(bar.value), y, said))
    return _svg("".join(parts), bottom + 44)


def swatch(style: int | str) -> str:
    """The small drawing of a series in a legend."""
    mark = "" if isinstance(style, str) else _mark(style, 13, 7, "")
    return (
        '<svg viewBox="0 0 26 14" class="swatch" aria-hidden="true">'
        f'<line class="line {_name(style)}" x1="1" x2="25" y1="7" y2="7"/>{mark}</svg>'
    )


def _svg(content: str, height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" class="plot" aria-hidden="true">{content}</svg>'


def _axes(x: Scale, y: Scale, left: float, x_label: str, y_label: str) -> str:
    right, bottom = WIDTH - 16, y.begin
    parts = [_label(y_label, 2, 12, "start")]
    for tick in y.ticks:
        at = y(tick)
        parts.append(
            f'<line class="grid" x1="{left:.1f}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text x="{left - 6:.1f}" y="{at + 4:.1f}" text-anchor="end">{y.text(tick)}</text>'
        )
    for tick in x.ticks:
        at = x(tick)
        parts.append(
            f'<line class="tick" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text x="{at:.1f}" y="{bottom + 23}" text-anchor="middle">{x.text(tick)}</text>'
        )
    parts.append(_label(x_label, (left + right) / 2, bottom + 42, "middle"))
    return "".join(parts)


def _label(text: str, x: float, y: float, anchor: str) -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _band(one: Series, x: Scale, y: Scale) -> str:
    if len(one.points) < 2 or any(point.low is None for point in one.points):
        return ""
    lows = [f"{x(p.x):.1f},{y(p.low):.1f}" for p in one.points]
    highs = [f"{x(p.x):.1f},{y(p.high):.1f}" for p in one.points]
    return f'<polygon class="band {_name(one.style)}" points="{" ".join(highs + lows[::-1])}"/>'


def _line(one: Series, x: Scale, y: Scale) -> str:
    places = [(x(point.x), y(point.y)) for point in one.points]
    parts = []
    if one.line and len(places) > 1:
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
        parts.append(f'<polyline class="line {_name(one.style)}" points="{path}"/>')
    if not isinstance(one.style, str):
        for point, (px, py) in zip(one.points, places, strict=True):
            said = f"{one.label}: {point.y:,.5g} at {point.x:,.5g}"
            parts.append(_mark(one.style, px, py, said))
    return "".join(parts)


def _mark(style: int, x: float, y: float, said: str) -> str:
    """A circle, square, diamond, triangle (up, down) or dot; hovering shows what it is."""
    title = f"<title>{escape(said)}</title>" if said else ""
    shapes = (
        ("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="4.2"'),
        ("rect", f'x="{x - 3.8:.1f}" y="{y - 3.8:.1f}" width="7.6" height="7.6"'),
        ("path", f'd="M{x:.1f} {y - 5.4:.1f}l5.4 5.4l-5.4 5.4l-5.4 -5.4z"'),
        ("path", f'd="M{x:.1f} {y - 5:.1f}l5 9h-10z"'),
        ("path", f'd="M{x:.1f} {y + 5:.1f}l5 -9h-10z"'),
        ("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="2.4"'),
    )
    tag, place = shapes[style % STYLES]
    return f'<{tag} class="mark {_name(style)}" {place}>{title}</{tag}>'


def _name(style: int | str) -> str:
    return style if isinstance(style, str) else f"s{style % STYLES}"

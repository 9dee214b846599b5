"""Charts by matplotlib in literal colours on white: drawn into a page, and as files of their own.

Loaders have the labels and colours of `bload.draw`.
"""

import io
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import IO, Any

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from bload.draw import INK, colour_of, label_of
from bload.packers import PACKERS
from experiments.report.exhibits import Exhibit, Rows
from training.page.charts import STYLE

WIDTH = 5.7
"""Inches of 72 pixels."""
KINDS: dict[str, dict[str, str | None]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
}
"""Kind of file -> what is left out of it, so that it has the same bytes each time."""
Draw = Callable[[Axes], None]


def chart(
    title: str, height: float, draw: Draw, alternative: str, rows: Rows, note: str
) -> Exhibit:
    """A drawing of so many inches, with the figures that it shows."""
    svg, save = plain_svg(title, height, draw), partial(_save, title, height, draw)
    return Exhibit(title, rows, note, svg, alternative, save=save)


class BetweenPowers(LogFormatter):
    """Labels of ticks between powers of ten, which short axes alone have, as plain numbers."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:,.10g}" if super().__call__(x, pos) else ""


def line_chart(
    title: str,
    points: pd.DataFrame,
    labels: tuple[str, str],
    rows: Rows,
    note: str,
    *,
    xscale: str = "linear",
    levels: Mapping[str, float] | None = None,
) -> Exhibit:
    """A line with a band per loader over a common plane.

    Args:
        points: columns `loader`, `x`, `y`, `low` and `high`, by x.
        labels: of the two axes.
        rows, note: of the exhibit.
        levels: name -> y of broken lines across.
    """
    lines = dict(iter(points.groupby("loader", sort=False)))
    marks = dict(zip(PACKERS, cycle("osD^vPXp"), strict=False))

    def draw(axis: Axes) -> None:
        axis.set(xlabel=labels[0], title=labels[1], xscale=xscale)
        for loader, part in lines.items():
            colour, mark = colour_of(loader), marks.get(loader.split(" ")[0], "*")
            (line,) = axis.plot(part.x, part.y, color=colour, marker=mark, label=label_of(loader))
            line.set_markevery(0.04 if len(part) > 12 else None)  # of the axes' diagonal, apart
            axis.fill_between(part.x, part.low, part.high, color=colour, alpha=0.15, lw=0)
            if len(part) == 1:  # a dot without a line is easily missed
                axis.annotate(
                    label_of(loader),
                    (part.x.iloc[0], part.y.iloc[0]),
                    (8, 0),
                    textcoords="offset points",
                    color=colour,
                    va="center",
                )
        for (name, level), broken in zip((levels or {}).items(), ("--", ":"), strict=False):
            axis.axhline(level, ls=broken, color=INK, linewidth=1.6, label=name)
        axis.set_ylim(bottom=0)
        if xscale == "linear":
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            axis.xaxis.set_minor_formatter(BetweenPowers())
        axis.xaxis.set_major_formatter("{x:,.10g}")
        axis.figure.legend(loc="outside upper left", ncols=2 if levels else 3, borderaxespad=0)

    shown = []
    for loader, part in lines.items():
        ends = dict.fromkeys(zip(part.y.iloc[[0, -1]], part.x.iloc[[0, -1]], strict=True))
        shown.append(f"{label_of(loader)} {' to '.join(f'{y:,.1f} at {x:,.1f}' for y, x in ends)}")
    text = f"{labels[1]} by {labels[0]}: {'; '.join([*shown, *(levels or {})])}."
    return chart(title, 4, draw, re.sub(r"\.0(?![0-9])", "", text), rows, note)


def across(axis: Axes, found: Mapping[float, float], width: float, colour: str, label: str) -> None:
    """Bars to the right, of values in percent by their places from the top."""
    bars = axis.barh([*found], [*found.values()], width, color=colour, label=label)
    axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=9.5)
    axis.set(xlim=(0, 100), xlabel="%", ymargin=0.02)
    axis.yaxis.set_inverted(True)
    axis.grid(axis="y", visible=False)


def plain_svg(title: str, height: float, draw: Draw) -> str:
    """A drawing in its own colours, without a size, for a page; the same text each time."""
    file = io.StringIO()
    _save(title, height, draw, file, "svg", {"svg.fonttype": "none"})
    own = r' (width|height)="[\d.]+pt"| id="[\w.]+_\d+"| ?font-family: [^;\"]+;?|<title>.*?</title>'
    text = file.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg ") :], flags=re.DOTALL)
    return re.sub(own, "", text)


def _save(
    title: str,
    height: float,
    draw: Draw,
    file: Path | IO[Any],
    kind: str,
    look: Mapping[str, Any] | None = None,
) -> None:
    """Write a drawing; its texts are paths in an SVG file and embedded type in a PDF file."""
    with style.context([STYLE, {"svg.hashsalt": title}, dict(look or {})]):
        figure = Figure((WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format=kind, metadata={"Title": title, **KINDS[kind]})

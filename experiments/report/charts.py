"""Charts by matplotlib, as SVG that follows the reader's light or dark colours.

Loaders have the labels and colours of `bload.draw`; other colours are variables of colours.css.
"""

import io
import re
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bload.draw import INK, colour_of, label_of
from bload.packers import PACKERS
from experiments.report.figures import Exhibit, Rows, template

WIDTH = 5.7
"""Inches of 72 pixels."""
VARIABLES = {INK: "ink", "#535b68": "soft", "#d8dce3": "rule"}
STYLE = Path(__file__).parent / "charts.mplstyle"


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
    marks = dict(zip(PACKERS, cycle("osD^vPX"), strict=False))

    def draw(axis: Axes) -> None:
        axis.set(xlabel=labels[0], title=labels[1], xscale=xscale)
        for loader, part in lines.items():
            colour, mark = colour_of(loader), marks.get(loader.split(" ")[0], "*")
            axis.plot(part.x, part.y, color=colour, marker=mark, label=label_of(loader))
            axis.fill_between(part.x, part.low, part.high, color=colour, alpha=0.15, lw=0)
        for (name, level), broken in zip((levels or {}).items(), ("--", ":"), strict=False):
            axis.axhline(level, ls=broken, color=INK, linewidth=1.6, label=name)
        axis.set_ylim(bottom=0)
        if xscale == "linear":
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.xaxis.set_major_formatter("{x:,.10g}")
        axis.figure.legend(loc="outside upper left", ncols=2 if levels else 3, borderaxespad=0)

    shown = []
    for loader, part in lines.items():
        ends = dict.fromkeys(zip(part.y.iloc[[0, -1]], part.x.iloc[[0, -1]], strict=True))
        shown.append(f"{label_of(loader)} {' to '.join(f'{y:,.1f} at {x:,.1f}' for y, x in ends)}")
    text = f"{labels[1]} by {labels[0]}: {'; '.join([*shown, *(levels or {})])}."
    return Exhibit(title, rows, note, _svg(title, 4, draw), text.replace(".0 ", " "))


def svg_file(chart: Exhibit) -> str:
    """The chart as an SVG document of its own, with its title and the colours."""
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', chart.svg)[0])
    return template("chart.svg").render(chart=chart, width=width, height=height)


def _svg(title: str, height: float, draw: Callable[[Axes], None]) -> str:
    """A drawing in the reader's light or dark colours."""
    return re.sub(r"#[0-9a-f]{6}\b", _colour, plain_svg(title, height, draw))


def plain_svg(title: str, height: float, draw: Callable[[Axes], None]) -> str:
    """A drawing in its own colours, without a size; the same bytes each time."""
    with style.context([STYLE, {"svg.hashsalt": title}]):
        figure = Figure((WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    text = file.getvalue()
    own = r' (width|height)="[\d.]+pt"| id="[\w.]+_\d+"| ?font-family: [^;\"]+;?'
    return re.sub(own, "", text[text.index("<svg ") :])


def _colour(found: re.Match) -> str:
    """A variable, or a colour that is lighter on dark paper."""
    name = VARIABLES.get(found[0])
    return f"var(--{name})" if name else f"color-mix(in srgb, {found[0]}, white var(--lift))"

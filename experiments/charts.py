"""The look of the studies' charts: SVG files with the same bytes each time."""

from collections.abc import Callable
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from training.page.charts import STYLE

WIDTH = 5.7
"""Inches of 72 pixels."""


def save_chart(path: Path, draw: Callable[[Figure], None], height: float = 4.0) -> None:
    """Write a chart as SVG, with texts as texts and a legend above it if lines have labels.

    Its bytes depend on matplotlib's version alone, which the file names.
    """
    salt = {"svg.hashsalt": path.stem, "svg.fonttype": "none"}
    with style.context([STYLE, salt]):
        figure = Figure((WIDTH, height), layout="constrained")
        draw(figure)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside upper left", ncols=2, borderaxespad=0)
        figure.savefig(path, format="svg", metadata={"Date": None})

"""Charts of a run's page: losses and Recall over steps, Recall by relation."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib import figure as mpl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

INK = "#2b2f36"
WIDTH = 5.7
"""Width in inches of 72 pixels."""
STYLE = Path(__file__).parent / "charts.mplstyle"
LOSS_PARTS = {
    "loss_class": "object class",
    "loss_l1": "boxes, L1",
    "loss_giou": "boxes, overlap",
    "loss_attention": "attention",
    "loss_labels": "spatial and contacting",
    "loss_dense": "dense task",
}
"""Part of the loss -> its label."""
GROUPS = {"attention": "#7a3fb8", "spatial": "#0f62ad", "contacting": "#b4500b"}
OBSERVERS = {"remembering": ("best with memory", "--"), "memoryless": ("best without memory", ":")}
"""Ideal observer, as in a figure's key -> its label and line style."""


@dataclass(frozen=True)
class Figure:
    """A drawing or a table in HTML, with its title."""

    title: str
    html: str


def chart(title: str, draw: Callable[[Axes], None], height: float) -> Figure:
    """Draw on white, with a legend if anything has a label; equal drawings give equal text."""
    file = io.StringIO()
    with style.context([STYLE, {"svg.hashsalt": title, "svg.fonttype": "none"}]):
        figure = mpl.Figure((WIDTH, height), layout="constrained")
        axis = figure.add_subplot()
        draw(axis)
        if axis.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=2, borderaxespad=0, handlelength=1.2)
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=no_metadata)
    text = file.getvalue()
    # The page gives the size and the font.
    size_and_font = r' (width|height)="[\d.]+pt"| ?font-family: [^;\"]+;?'
    return Figure(title, re.sub(size_and_font, "", text[text.index("<svg ") :]))


def losses(lines: pd.DataFrame) -> Figure:
    """Draw the loss and its parts, of steps and of epochs.

    Args:
        lines: of metrics.jsonl, with `at`, the step of the whole run.
    """
    steps, epochs = lines[lines.kind == "step"], lines[lines.kind == "epoch"]
    parts = {key: name for key, name in LOSS_PARTS.items() if key in lines and lines[key].any()}

    def draw(axis: Axes) -> None:
        for key, name in {"loss": "all, over all layers", **parts}.items():
            (line,) = axis.plot(steps["at"], steps[key], lw=1, alpha=0.6)
            axis.plot(epochs["at"], epochs[key], "o-", ms=4, color=line.get_color(), label=name)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:,.10g}")
        axis.yaxis.set_minor_formatter(LogFormatter())
        axis.set_xlabel("step; dots are means of epochs")

    return chart("Loss", draw, 4.5)


def recall_by_step(evaluations: pd.DataFrame) -> Figure:
    """Draw Recall@20 on the validation videos, beside the ideal observers if they are known."""
    recall = 100 * evaluations["with/recall@20"]

    def draw(axis: Axes) -> None:
        axis.plot(evaluations["at"], recall, "o-", label="this model")
        for key, (name, line_style) in OBSERVERS.items():
            if f"{key}/recall@20" in evaluations:
                level = 100 * evaluations[f"{key}/recall@20"].iloc[-1]
                axis.axhline(level, ls=line_style, color=INK, lw=1.6, label=f"{name} {level:.1f}")
        axis.set_ylim(0, 100)
        axis.set_xlabel("step")

    return chart("Recall@20 on validation videos, %", draw, 3.4)


def relations(rows: pd.DataFrame) -> Figure:
    """Draw bars of all relations with their counts, best first within their group.

    Args:
        rows: a row per relation with its `name`, `group`, `triplets` and `recall` (0 to 1).
    """
    rows = rows.assign(order=rows.group.map({group: number for number, group in enumerate(GROUPS)}))
    rows = rows.sort_values(["order", "recall"], ascending=[True, False]).reset_index(drop=True)

    def draw(axis: Axes) -> None:
        for group, members in rows.groupby("group", sort=False):
            bars = axis.barh(members.index, 100 * members.recall, 0.7, color=GROUPS[str(group)])
            bars.set_label(str(group))
            axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=9.5)
        labels = [f"{row.name} ({row.triplets:,.0f})" for row in rows.itertuples(index=False)]
        axis.set_yticks(rows.index, labels)
        axis.tick_params(axis="y", labelsize=9.5, length=0)
        axis.set(xlim=(0, 100), xlabel="%", ymargin=0.02)
        axis.yaxis.set_inverted(True)
        axis.grid(axis="y", visible=False)

    return chart("Recall@20 by relation, with constraint, %", draw, 1.2 + 0.2 * len(rows))

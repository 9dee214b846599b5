"""Charts of a run's page: losses and Recall over steps, costs by epoch, Recall by relation."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator

from bload.show.draw import colour_of
from training.report.record import Record, Row

WIDTH = 5.7
"""Width in inches of 72 pixels."""
STYLE = Path(__file__).parent / "charts.mplstyle"
INK, QUIET, WAITING, MODEL = "#2b2f36", "#9aa3af", "#d9822b", "#0f62ad"
LOSS_PARTS = {
    "loss_class": ("object class", "#0f62ad"),
    "loss_l1": ("boxes, L1", "#b4500b"),
    "loss_giou": ("boxes, overlap", "#0a7a52"),
    "loss_attention": ("attention", "#7a3fb8"),
    "loss_labels": ("spatial and contacting", "#5f6673"),
    "loss_dense": ("dense task", "#a83260"),
}
"""Part of the loss -> its label and colour."""
GROUPS = {"attention": "#7a3fb8", "spatial": "#0f62ad", "contacting": "#b4500b"}
OBSERVERS = {
    "with": ("this model", "-", MODEL),
    "remembering": ("best with memory", "--", INK),
    "memoryless": ("best without memory", ":", QUIET),
}
"""Prefix of a figure's key -> label, line style and colour."""
TICKS = 8
"""Most epochs labelled above a chart."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A drawing with its title, alternative text and note."""

    title: str
    svg: str
    alternative: str
    note: str = ""


def chart(
    title: str, alternative: str, draw: Callable[[Axes], None], height: float = 3.4, note: str = ""
) -> Chart:
    """Draw on white, with a legend if anything has a label; equal drawings give equal text."""
    file = io.StringIO()
    with style.context([STYLE, {"svg.hashsalt": title, "svg.fonttype": "none"}]):
        figure = Figure((WIDTH, height), layout="constrained")
        axis = figure.add_subplot()
        draw(axis)
        if axis.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=2, borderaxespad=0, handlelength=1.2)
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=no_metadata)
    text = file.getvalue()
    # The page gives the size and the font.
    size_and_font = r' (width|height)="[\d.]+pt"| ?font-family: [^;\"]+;?'
    return Chart(title, re.sub(size_and_font, "", text[text.index("<svg ") :]), alternative, note)


def loss(record: Record) -> Chart:
    """Draw the whole loss, of steps and of epochs."""
    steps, epochs = step_points(record, "loss"), epoch_points(record, "loss")
    points = epochs or steps

    def draw(axis: Axes) -> None:
        axis.plot(*columns(steps), color=QUIET, lw=1.2, label="of a step")
        axis.plot(*columns(epochs), "o-", color=colour(record), label="mean of an epoch")
        axis.set_ylim(bottom=0)
        label_steps(axis, record)

    return chart("Loss", f"Loss from {points[0][1]:.3g} to {points[-1][1]:.3g}", draw)


def parts(record: Record) -> Chart | None:
    """Draw the parts of the loss, of steps and of epochs; None if none was logged."""
    lines = [*record.steps, *record.epochs]
    logged = dict.fromkeys(key for line in lines for key in line if key.startswith("loss_"))
    styles = {
        key: LOSS_PARTS.get(key, (key.removeprefix("loss_"), None))
        for key in logged
        if any(line.get(key, 0) > 0 for line in lines)
    }
    if not styles:
        return None

    def draw(axis: Axes) -> None:
        axis.set_yscale("log")
        for key, (name, colour) in styles.items():
            (line,) = axis.plot(*columns(epoch_points(record, key)), "o-", ms=4, color=colour)
            axis.plot(*columns(step_points(record, key)), lw=1, alpha=0.6, color=line.get_color())
            line.set_label(name)
        label_steps(axis, record)

    text = f"Parts of the loss: {', '.join(name for name, _ in styles.values())}"
    note = (
        "Thin lines are steps, dots means of epochs. These are of the last layer; the whole loss "
        "adds up all layers."
    )
    return chart("Parts of the loss", text, draw, 4, note)


def recall_by_step(record: Record) -> Chart:
    """Draw Recall@20 on the validation videos, beside the ideal observers if they are known."""
    points = [(global_step(record, line), 100 * line["with/recall@20"]) for line in record.evals]

    def draw(axis: Axes) -> None:
        for key, (name, line_style, ink) in known_observers(record.evals[-1]).items():
            if key == "with":
                axis.plot(*columns(points), "o-", color=colour(record), label=name)
            else:
                level = 100 * record.evals[-1][f"{key}/recall@20"]
                axis.axhline(level, ls=line_style, color=ink, lw=1.6, label=f"{name} {level:.1f}")
        axis.set_ylim(0, 100)
        label_steps(axis, record)

    text = f"Recall@20 from {points[0][1]:.1f} to {points[-1][1]:.1f} %"
    return chart("Recall@20 on validation videos, %", text, draw)


def known_observers(figures: Row) -> dict[str, tuple[str, str, str]]:
    return {key: look for key, look in OBSERVERS.items() if f"{key}/recall@20" in figures}


def recall(figures: Row) -> Chart:
    """Draw Recall@20 beside the ideal observers if they are known.

    It is of all relations, and of those that need memory.
    """
    observers, kinds = known_observers(figures), {"": "all relations"}
    if "with/recall@20_memory" in figures:  # then observers have it too
        kinds["_memory"] = "those that need memory"
    percent = {
        (key, kind): 100 * figures[f"{key}/recall@20{kind}"] for key in observers for kind in kinds
    }

    def draw_bars(axis: Axes) -> None:
        for position, (key, (name, _, ink)) in enumerate(observers.items()):
            lengths = {row + 0.27 * position: percent[key, kind] for row, kind in enumerate(kinds)}
            bars(axis, lengths, 0.25, ink, name)
        middles = [row + 0.27 for row in range(len(kinds))]
        axis.set_yticks(middles, [fill(words, 16) for words in kinds.values()])

    texts = [f"{observers[key][0]}, {kinds[kind]} {x:.1f}" for (key, kind), x in percent.items()]
    return chart("Recall@20 with constraint, %", "; ".join(texts), draw_bars)


def seconds(record: Record) -> Chart:
    """Draw the time of each epoch, and how much of it was waiting for data."""
    ends = [line["epoch"] for line in record.epochs]
    waiting_seconds = [line["waiting_seconds"] for line in record.epochs]
    computing_seconds = [line["seconds"] - line["waiting_seconds"] for line in record.epochs]

    def draw(axis: Axes) -> None:
        axis.bar(ends, computing_seconds, 0.6, color=colour(record), label="computing")
        axis.bar(
            ends, waiting_seconds, 0.6, computing_seconds, color=WAITING, label="waiting for data"
        )
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter("{x:,.10g}")

    waiting = sum(waiting_seconds)
    text = f"{waiting:,.1f} s of {sum(computing_seconds) + waiting:,.1f} s waiting for data"
    return chart("Seconds of an epoch", text, draw)


def relations(rows: pd.DataFrame) -> Chart:
    """Draw `relation_bars` of all relations, with Recall in words."""
    best = 100 * rows.groupby("group").recall.max()
    text = "; ".join(f"{group} up to {best[group]:.1f} %" for group in GROUPS if group in best)
    title, height = "Recall@20 by relation, with constraint, %", 1.2 + 0.2 * len(rows)
    return chart(title, text, lambda axis: relation_bars(axis, rows), height)


def relation_bars(axis: Axes, rows: pd.DataFrame) -> None:
    """Draw bars of all relations with their counts, best first within their group.

    Args:
        rows: a row per relation with its `name`, `group`, `triplets` and `recall` (0 to 1).
    """
    order = {group: number for number, group in enumerate(GROUPS)}
    rows = rows.sort_values("recall", ascending=False)
    rows = rows.sort_values("group", key=lambda groups: groups.map(order), kind="stable")
    rows = rows.reset_index(drop=True)
    for group, members in rows.groupby("group", sort=False):
        bars(axis, (100 * members.recall).to_dict(), 0.7, GROUPS[str(group)], str(group))
    labels = [f"{row.name} ({row.triplets:,.0f})" for row in rows.itertuples(index=False)]
    axis.set_yticks(rows.index, labels)
    axis.tick_params(axis="y", labelsize=9.5, length=0)


def label_steps(axis: Axes, record: Record) -> None:
    """Label the steps of the run below, and the ends of its epochs on top."""
    axis.set_xlabel("step")
    axis.xaxis.set_major_formatter("{x:,.10g}")
    axis.yaxis.set_major_formatter("{x:,.10g}")
    if axis.get_yscale() == "log":
        axis.yaxis.set_minor_formatter(LogFormatter())
    steps = [global_step(record, line) for line in (*record.steps, *record.epochs)]
    axis.set_xlim(0, 1.02 * max(steps, default=1))
    ends = [(global_step(record, line), line["epoch"]) for line in record.epochs]
    if ends := ends[:: -(-len(ends) // TICKS) or 1]:
        top = axis.secondary_xaxis("top")
        top.set_xticks(*zip(*ends, strict=True))
        top.set_xlabel("end of epoch")


def bars(axis: Axes, lengths: Mapping[float, float], width: float, ink: str, label: str) -> None:
    """Draw horizontal bars: position, counted from the top, -> length in percent."""
    drawing = axis.barh([*lengths], [*lengths.values()], width, color=ink, label=label)
    axis.bar_label(drawing, fmt="%.1f", padding=3, fontsize=9.5)
    axis.set(xlim=(0, 100), xlabel="%", ymargin=0.02)
    axis.yaxis.set_inverted(True)
    axis.grid(axis="y", visible=False)


def colour(record: Record) -> str:
    return colour_of(record.config["loader"]["name"])


def global_step(record: Record, line: Row) -> int:
    """Return the step of the whole run at which a line was written; epochs may differ in steps."""
    epoch_steps = {epoch["epoch"]: epoch["step"] for epoch in record.epochs}
    return sum(epoch_steps.get(epoch, 0) for epoch in range(line["epoch"])) + line["step"]


def step_points(record: Record, key: str) -> Points:
    return [(global_step(record, line), line[key]) for line in record.steps if key in line]


def epoch_points(record: Record, key: str) -> Points:
    """Return the mean of each epoch, placed at its middle."""
    lines = [line for line in record.epochs if key in line]
    return [(global_step(record, line) - line["step"] / 2, line[key]) for line in lines]


def columns(points: Points) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]

"""Pictures of plans, and the label and colour of each loader in every chart."""

import colorsys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bload.errors import InputError
from bload.packing.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PADDING = "#d4d7dc"
START = "#111418"
INK = "#2b2f36"


class Look(NamedTuple):
    """Appearance of a loader in tables and charts."""

    label: str
    colour: str
    caption: str


LOOKS = {
    "naive": Look("naive", "#5f6673", "naive padding: one video per block"),
    "sampling": Look("sampling", "#b4500b", "sampling: short videos dropped, long ones cut"),
    "mix": Look("mix pad", "#7a3fb8", "mix pad: cut or padded to the mean length"),
    "single": Look("one by one", "#8a6d1f", "one by one: every video a batch"),
    "bucket": Look("buckets", "#a83260", "buckets: like lengths, padded to the longest of a batch"),
    "ragged": Look("ragged", "#3d7a8a", "ragged: random videos until a batch is full"),
    "bload": Look("BLoad", "#0f62ad", "BLoad: random whole videos that fit"),
    "bload_exact": Look("BLoad exact", "#0a7a52", "BLoad exact: squeezed into fewer blocks"),
}
"""Looks of known loaders; others need no entry."""


def label_of(name: str) -> str:
    """Return a loader's label: ``bload draw=length`` -> ``BLoad draw=length``."""
    loader, *options = name.split(" ")
    return " ".join([LOOKS[loader].label if loader in LOOKS else loader, *options])


def colour_of(name: str) -> str:
    """Return a loader's colour for matplotlib; options after its name do not change it."""
    loader = name.split(" ")[0]
    return LOOKS[loader].colour if loader in LOOKS else INK


def draw_plans(plans: dict[str, Plan], path: str | Path, rows: int = 12) -> Path:
    """Draw the first blocks of each plan, one panel per loader, on the same scale of frames.

    Args:
        plans: plans by name of the loader.
        path: file to write, in a format of matplotlib, such as ``.png`` or ``.svg``.
        rows: largest number of blocks per panel.

    Raises:
        InputError: a path that cannot be written, or missing matplotlib.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise InputError("drawing needs matplotlib; run pip install matplotlib") from error

    columns = 2 if len(plans) > 1 else 1
    blocks = [min(plan.blocks, rows) for plan in plans.values()]
    tall = [max(blocks[first : first + columns]) for first in range(0, len(blocks), columns)]
    height = sum(0.19 * rows + 0.75 for rows in tall) + 0.5
    figure = Figure(figsize=(5.6 * columns, height), layout="constrained")
    axes = figure.subplots(len(tall), columns, squeeze=False, height_ratios=tall).ravel()
    widest = max(plan.t_max for plan in plans.values())
    for panel, (axis, (name, plan)) in enumerate(zip(axes, plans.items(), strict=False)):
        _draw_blocks(axis, plan, tall[panel // columns], widest)
        title = LOOKS[name].caption if name in LOOKS else name
        axis.set_title(title, fontsize=10, loc="left", color=colour_of(name), weight="bold")
        counts = f"{plan.blocks:,} blocks · {plan.padding:,} padded · {plan.deleted:,} deleted"
        axis.set_xlabel(counts, fontsize=8.5, color=INK, loc="left")
    for axis in axes[len(plans) :]:
        axis.set_axis_off()
    legend = [
        Patch(facecolor=_sequence_colour(2), label="video"),
        Patch(facecolor=PADDING, label="padding"),
        Patch(facecolor=START, label="start: the state is cleared"),
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=3, frameon=False)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {error}; name another place") from error
    return Path(path)


def _draw_blocks(axis: "Axes", plan: Plan, rows: int, widest: int) -> None:
    for row in range(min(rows, plan.blocks)):
        block = plan.block(row)
        spans = [*zip(block.starts.tolist(), block.length.tolist(), strict=True)]
        colours = [_sequence_colour(int(sequence)) for sequence in block.sequence]
        marks = [(slot, widest / 160) for slot, _ in spans]
        axis.broken_barh([(0, block.t_max)], (row, 0.78), facecolors=PADDING, linewidth=0)
        axis.broken_barh(spans, (row, 0.78), facecolors=colours, linewidth=0)
        axis.broken_barh(marks, (row, 0.78), facecolors=START, linewidth=0)
    axis.set(xlim=(0, widest), ylim=(rows, -0.2), yticks=[])
    axis.locator_params(axis="x", integer=True)
    axis.tick_params(axis="x", labelsize=8, colors=INK, length=2)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _sequence_colour(sequence: int) -> tuple[float, float, float]:
    """Return the colour of a sequence: hues by the golden ratio, so that neighbours differ."""
    hue = (0.08 + sequence * 0.61803398875) % 1.0
    lightness = 0.52 + 0.14 * (np.sin(sequence * 2.3) * 0.5 + 0.5)
    return colorsys.hls_to_rgb(hue, lightness, 0.55)

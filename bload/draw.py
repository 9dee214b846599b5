"""Blocks as a picture: segments in colour, padding grey, a mark wherever a state starts anew."""

from pathlib import Path

import numpy as np

from bload.errors import InputError
from bload.plan import Plan

PADDING = "#d4d7dc"
START = "#111418"
INK = "#2b2f36"
CAPTIONS = {
    "naive": "naive padding: one video a block",
    "sampling": "sampling: short videos dropped, long ones cut",
    "mix": "mix pad: cut or padded to the mean length",
    "bload": "BLoad: random whole videos that fit",
    "bload_exact": "BLoad, exact: the fewest blocks possible",
}


def draw_plans(plans: dict[str, Plan], path: str | Path, rows: int = 12) -> Path:
    """Draw the first blocks of each plan, one panel a loader, on one scale of frames.

    Args:
        plans: loader name -> plan.
        path: where to write; the suffix says what, ``.png`` or ``.svg``.
        rows: blocks shown a panel.

    Raises:
        InputError: another suffix, no place to write to, or matplotlib is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"cannot draw to {path}; name a .png or .svg file")
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise InputError("drawing needs matplotlib; run pip install matplotlib") from error

    columns = 2 if len(plans) > 1 else 1
    lines = -(-len(plans) // columns)
    height = 0.19 * rows + 0.75
    figure = Figure(figsize=(5.6 * columns, height * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    widest = max(plan.t_max for plan in plans.values())
    for axis, (name, plan) in zip(axes, plans.items(), strict=False):
        _draw_blocks(axis, plan, rows, widest)
        axis.set_title(CAPTIONS.get(name, name), fontsize=10, loc="left", color=INK, weight="bold")
        label = f"{plan.blocks:,} blocks · {plan.padding:,} padded · {plan.deleted:,} deleted"
        axis.set_xlabel(label, fontsize=8.5, color=INK, loc="left")
    for axis in axes[len(plans) :]:
        axis.set_axis_off()
    legend = [
        Patch(facecolor=_colour(2), label="video"),
        Patch(facecolor=PADDING, label="padding"),
        Patch(facecolor=START, label="start: the state is cleared"),
    ]
    where = axes[len(plans)] if len(axes) > len(plans) else figure
    options = {} if where is figure else {"fontsize": 9}
    place = "outside lower center" if where is figure else "center"
    where.legend(
        handles=legend, loc=place, ncols=3 if where is figure else 1, frameon=False, **options
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; name another place") from error
    return path


def _draw_blocks(axis, plan: Plan, rows: int, widest: int) -> None:
    shown = min(rows, plan.blocks)
    for row in range(shown):
        block = plan.block(row)
        axis.broken_barh([(0, plan.t_max)], (row, 0.78), facecolors=PADDING, linewidth=0)
        spans = list(zip(block.starts.tolist(), block.length.tolist(), strict=True))
        colours = [_colour(int(sequence)) for sequence in block.sequence]
        axis.broken_barh(spans, (row, 0.78), facecolors=colours, linewidth=0)
        mark = max(widest / 160, 0.15)
        starts = [(slot, mark) for slot in block.starts.tolist()]
        axis.broken_barh(starts, (row, 0.78), facecolors=START, linewidth=0)
    axis.set_xlim(0, widest)
    axis.set_ylim(rows, -0.2)
    axis.set_yticks([])
    axis.tick_params(axis="x", labelsize=8, colors=INK, length=2)
    axis.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _colour(sequence: int) -> tuple[float, float, float]:
    """A colour for a sequence: hues by the golden ratio, so that neighbours differ."""
    import colorsys

    hue = (0.08 + sequence * 0.61803398875) % 1.0
    lightness = 0.52 + 0.14 * (np.sin(sequence * 2.3) * 0.5 + 0.5)
    return colorsys.hls_to_rgb(hue, lightness, 0.55)

"""The page of a run, ``report.html`` in its folder, with its charts and ``prediction.png``."""

import io
import json
import re
import traceback
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from matplotlib import figure as mpl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from datasets.files import write_whole
from training.folder import RunFolder, read_json, read_lines
from training.printing import summary_rows
from training.ranks import Ranks
from training.report.frames import Album

WIDTH = 5.7
"""Width in inches of 72 pixels."""
STYLE = Path(__file__).parent / "charts.mplstyle"


@dataclass(frozen=True)
class Figure:
    """A drawing or a table in HTML, with its title."""

    title: str
    html: str


def write_page(folder: RunFolder) -> None:
    """Write the page of a run that has ended."""
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    page = environment.get_template("page.html").render(
        title=f"BLoad: run {folder.path.name}", page=make_sections(folder)
    )
    write_whole(folder.page, page)


def write_or_warn(folder: RunFolder, ranks: Ranks, album: Album) -> None:
    """Draw the picture of a run that has ended, and its page; only warn if that fails.

    All ranks call this.

    Args:
        album: what this rank has seen of the video in the picture.
    """
    predictions_by_rank = ranks.gather(album.frame_predictions)
    if not ranks.is_first:
        return
    try:
        for predictions in predictions_by_rank:
            album.frame_predictions |= predictions
        ((_, picture),) = album.draw()
        picture.save(folder.picture)
        write_page(folder)
    except Exception:
        print(f"{traceback.format_exc()}warning: {folder.path} has no page")


def make_sections(folder: RunFolder) -> dict[str, list[Figure]]:
    """Return the parts of each section by its title."""
    lines, summary = read_progress(folder), dict(summary_rows(read_json(folder.summary)))
    data = b64encode(folder.picture.read_bytes()).decode()
    title = "Frames of an unseen video: the truth, the prediction, the best triplets"
    picture = Figure(title, f'<img alt="" src="data:image/png;base64,{data}"/>')
    training, evaluations = [losses(lines)], lines[lines.kind == "eval"]
    training += [recall_by_step(evaluations)] if len(evaluations) > 1 else []
    cost = pairs("The last weights, and the cost of an epoch", summary)
    return {
        "Results": [cost],
        "An unseen video": [picture],
        "Losses": training,
        "Config": [pairs("Every key", folder.saved_config())],
        "Commit and machine": [pairs("Where it was trained", read_json(folder.made_on))],
    }


def read_progress(folder: RunFolder) -> pd.DataFrame:
    """Return the lines of metrics.jsonl, with `at`, the step of the whole run."""
    lines = pd.DataFrame([line for _, line in read_lines(folder.metrics)])
    ends = lines[lines.kind == "epoch"].set_index("epoch").step.cumsum()
    return lines.assign(at=lines.step + (lines.epoch - 1).map(ends).fillna(0))


def pairs(title: str, values: Mapping[str, Any]) -> Figure:
    """Return a table of keys and values, those of groups as ``group.key``."""
    rows = pd.json_normalize({**values}).T
    rows[0] = [value if isinstance(value, str) else json.dumps(value) for value in rows[0]]
    with pd.option_context("display.max_colwidth", None):
        return Figure(title, rows.to_html(border=0, justify="left", header=False))


def chart(title: str, draw: Callable[[Axes], None], height: float) -> Figure:
    """Draw on white, with a legend if anything has a label."""
    file = io.StringIO()
    with style.context([STYLE, {"svg.fonttype": "none"}]):
        figure = mpl.Figure((WIDTH, height), layout="constrained")
        axis = figure.add_subplot()
        draw(axis)
        if axis.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=2, borderaxespad=0, handlelength=1.2)
        figure.savefig(file, format="svg")
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
    parts = [key for key in lines if key.startswith("loss") and lines[key].any()]

    def draw(axis: Axes) -> None:
        for key in parts:
            (line,) = axis.plot(steps["at"], steps[key], lw=1, alpha=0.6)
            axis.plot(epochs["at"], epochs[key], "o-", ms=4, color=line.get_color(), label=key)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:,.10g}")
        axis.yaxis.set_minor_formatter(LogFormatter())
        axis.set_xlabel("step; dots are means of epochs")

    return chart("Loss", draw, 4.5)


def recall_by_step(evaluations: pd.DataFrame) -> Figure:
    """Draw Recall@20 on the validation videos."""

    def draw(axis: Axes) -> None:
        axis.plot(evaluations["at"], 100 * evaluations["with/recall@20"], "o-")
        axis.set_ylim(0, 100)
        axis.set_xlabel("step")

    return chart("Recall@20 on validation videos, %", draw, 3.4)

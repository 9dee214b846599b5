"""The page of a run, ``report.html`` in its folder, with its charts and ``prediction.png``."""

import io
import json
import traceback
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from matplotlib import figure as mpl
from matplotlib import style
from matplotlib.ticker import LogFormatter

from datasets.files import write_whole
from training.folder import RunFolder, read_json, read_lines
from training.printing import summary_rows
from training.ranks import Ranks
from training.report.album import Album

WIDTH = 5.7
"""Width in inches of 72 pixels."""
STYLE = Path(__file__).parent / "charts.mplstyle"


def write_or_warn(folder: RunFolder, ranks: Ranks, album: Album) -> None:
    """Draw the picture of a run that has ended, and its page; only warn if that fails.

    All ranks call this.
    """
    predictions_by_rank = ranks.gather(album.frame_predictions)
    if not ranks.is_first:
        return
    try:
        for predictions in predictions_by_rank:
            album.frame_predictions |= predictions
        ((_, figure),) = album.draw()
        figure.savefig(folder.picture)
        environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
        page = environment.get_template("page.html").render(
            title=f"BLoad: run {folder.path.name}",
            results=table(dict(summary_rows(read_json(folder.summary)))),
            picture=b64encode(folder.picture.read_bytes()).decode(),
            charts=b64encode(draw_progress(read_progress(folder))).decode(),
            config=table(read_json(folder.config)),
            machine=table(read_json(folder.made_on)),
        )
        write_whole(folder.page, page)
    except Exception:
        print(f"{traceback.format_exc()}warning: {folder.path} has no page")


def read_progress(folder: RunFolder) -> pd.DataFrame:
    """Return the lines of metrics.jsonl, with `at`, the step of the whole run."""
    lines = pd.DataFrame([line for _, line in read_lines(folder.metrics)])
    ends = lines[lines.kind == "epoch"].set_index("epoch").step.cumsum()
    return lines.assign(at=lines.step + (lines.epoch - 1).map(ends).fillna(0))


def table(values: Mapping[str, Any]) -> str:
    """Return a table of keys and values in HTML, those of groups as ``group.key``."""
    rows = pd.json_normalize({**values}).T
    rows[0] = [value if isinstance(value, str) else json.dumps(value) for value in rows[0]]
    with pd.option_context("display.max_colwidth", None):
        return rows.to_html(border=0, justify="left", header=False)


def draw_progress(lines: pd.DataFrame) -> bytes:
    """Draw losses of steps and epochs, and Recall@20 on validation videos if there are two; SVG."""
    steps, epochs, evaluations = (lines[lines.kind == kind] for kind in ("step", "epoch", "eval"))
    parts = [key for key in lines if key.startswith("loss") and lines[key].any()]
    count, file = 2 if len(evaluations) > 1 else 1, io.BytesIO()
    with style.context(STYLE):
        figure = mpl.Figure((WIDTH, 4 * count), layout="constrained")
        axes = figure.subplots(count, squeeze=False)[:, 0]
        for key in parts:
            (line,) = axes[0].plot(steps["at"], steps[key], lw=1, alpha=0.6)
            axes[0].plot(epochs["at"], epochs[key], "o-", ms=4, color=line.get_color(), label=key)
        axes[0].set(yscale="log", title="Loss", xlabel="step; dots are means of epochs")
        axes[0].yaxis.set_major_formatter("{x:,.10g}")
        axes[0].yaxis.set_minor_formatter(LogFormatter())
        figure.legend(loc="outside upper left", ncols=2, borderaxespad=0, handlelength=1.2)
        if count == 2:
            axes[1].plot(evaluations["at"], 100 * evaluations["with/recall@20"], "o-")
            title = "Recall@20 on validation videos, %"
            axes[1].set(ylim=(0, 100), title=title, xlabel="step")
        figure.savefig(file, format="svg")
    return file.getvalue()

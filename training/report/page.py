"""The page of a run, ``report.html`` in its folder, with ``prediction.png``."""

import json
import traceback
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bload import InputError
from datasets.files import write_whole
from training.folder import RunFolder, read_json, read_lines
from training.printing import summary_rows
from training.ranks import Ranks
from training.report import charts
from training.report.charts import Figure
from training.report.frames import Album

FORMATS = {"epoch": "{}", "loss": "{:.2f}", "seconds": "{:,.1f}", "waiting_seconds": "{:,.1f}"}
FORMATS |= dict.fromkeys(("frames_per_second", "padding", "filler", "deleted"), "{:,.0f}")
FORMATS |= {"peak_memory_mib": "{:,.0f}"}
"""Figure of an epoch in the table -> its format."""


Parts = list[str | Figure]


def write_page(folder: RunFolder) -> None:
    """Write the page of a run, finished or not.

    Raises:
        InputError: the folder is not that of a run.
    """
    if not folder.config.is_file():
        raise InputError(f"{folder.path} is not the folder of a run; give one, such as runs/NAME")
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html").render(
        title=f"BLoad: run {folder.path.name}", page=make_sections(folder)
    )
    write_whole(folder.page, page)


def write_or_warn(folder: RunFolder, ranks: Ranks, album: Album) -> None:
    """Draw the picture of a run that has ended, then its page; only warn if that fails.

    All ranks call this.

    Args:
        album: draws the picture, on the rank that has seen its video.
    """
    try:
        for _, picture in album.draw():
            picture.save(folder.picture)
        error = None
    except Exception:
        error = traceback.format_exc()
    errors = [*filter(None, ranks.gather(error))]  # and the picture is there
    if not ranks.is_first:
        return
    try:
        write_page(folder)
    except Exception:
        errors.append(traceback.format_exc())
    if errors:
        print(*errors, f"warning: python -m training.report {folder.path} tries the page again")


def make_sections(folder: RunFolder) -> dict[str, Parts]:
    """Return the parts of each section by its title, of a run that may not have finished."""
    lines = read_progress(folder)
    result: Parts = ["The run has not finished, so its last weights are not evaluated yet."]
    if folder.summary.exists():
        summary = dict(summary_rows(read_json(folder.summary)))
        result = [pairs("The last weights, and the cost of an epoch", summary)]
    if folder.relations.exists():
        rows = pd.read_csv(folder.relations)
        rows = rows.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
        result.append(charts.relations(rows.assign(name=rows.name.str.replace("_", " "))))
    picture: Parts = ["There is no picture; it is drawn when a run ends."]
    if folder.picture.exists():
        data = b64encode(folder.picture.read_bytes()).decode()
        title = "Frames of an unseen video: the truth, the prediction, the best triplets"
        picture = [Figure(title, f'<img alt="" src="data:image/png;base64,{data}"/>')]
    training: Parts = ["No step has been logged yet."]
    if len(lines):
        epochs, evaluations = (lines[lines.kind == kind] for kind in ("epoch", "eval"))
        training = [charts.losses(lines)]
        training += [charts.recall_by_step(evaluations)] if len(evaluations) > 1 else []
        formatters = {name: form.format for name, form in FORMATS.items()}
        training += [table("By epoch", epochs[[*FORMATS]], index=False, formatters=formatters)]
    return {
        "Results": result,
        "An unseen video": picture,
        "Losses and time": training,
        "Config": [pairs("Every key", folder.saved_config())],
        "Commit and machine": [pairs("Where it was trained", read_json(folder.made_on))],
    }


def read_progress(folder: RunFolder) -> pd.DataFrame:
    """Return the lines of metrics.jsonl, with `at`, the step of the whole run."""
    lines = pd.DataFrame([line for _, line in read_lines(folder.metrics)])
    if lines.empty:
        return lines
    ends = lines[lines.kind == "epoch"].set_index("epoch").step.cumsum()
    return lines.assign(at=lines.step + (lines.epoch - 1).map(ends).fillna(0))


def table(title: str, rows: pd.DataFrame, **options: Any) -> Figure:
    """Return a table of a data frame; `options` as in `pandas.DataFrame.to_html`."""
    with pd.option_context("display.max_colwidth", None):
        return Figure(title, rows.to_html(border=0, justify="left", **options))


def pairs(title: str, values: Mapping[str, Any]) -> Figure:
    """Return a table of keys and values, those of groups as ``group.key``."""
    rows = pd.json_normalize({**values}).T
    rows[0] = [value if isinstance(value, str) else json.dumps(value) for value in rows[0]]
    return table(title, rows, header=False)

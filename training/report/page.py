"""The page of a run, ``report.html`` in its folder, with ``prediction.png``."""

import json
import traceback
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from datasets.files import write_whole
from training.folder import RunFolder, read_json, read_lines
from training.printing import summary_rows
from training.ranks import Ranks
from training.report import charts
from training.report.charts import Figure
from training.report.frames import Album

Parts = list[str | Figure]


def write_page(folder: RunFolder) -> None:
    """Write the page of a run that has ended."""
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
        print(*errors, f"warning: the page of {folder.path} is not complete")


def make_sections(folder: RunFolder) -> dict[str, Parts]:
    """Return the parts of each section by its title."""
    lines, summary = read_progress(folder), dict(summary_rows(read_json(folder.summary)))
    rows = pd.read_csv(folder.relations)
    rows = rows.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
    rows = rows.assign(name=rows.name.str.replace("_", " "))
    picture: Parts = ["There is no picture."]
    if folder.picture.exists():
        data = b64encode(folder.picture.read_bytes()).decode()
        title = "Frames of an unseen video: the truth, the prediction, the best triplets"
        picture = [Figure(title, f'<img alt="" src="data:image/png;base64,{data}"/>')]
    training, evaluations = [charts.losses(lines)], lines[lines.kind == "eval"]
    training += [charts.recall_by_step(evaluations)] if len(evaluations) > 1 else []
    cost = pairs("The last weights, and the cost of an epoch", summary)
    return {
        "Results": [cost, charts.relations(rows)],
        "An unseen video": picture,
        "Losses": [*training],
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

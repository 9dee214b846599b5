"""The page of a run, ``report.html`` in its folder, with ``prediction.png``."""

import json
import re
import traceback
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from training.report.charts import Chart
from training.report.frames import Album

FORMATS = {"epoch": "{}", "loss": "{:.2f}", "seconds": "{:,.1f}", "waiting_seconds": "{:,.1f}"}
FORMATS |= dict.fromkeys(("frames_per_second", "padding", "filler", "deleted"), "{:,.0f}")
FORMATS |= {"peak_memory_mib": "{:,.0f}"}
"""Figure of an epoch in the table -> its format."""


@dataclass(frozen=True)
class Table:
    """Rows of texts by heading; the first column names the row."""

    title: str
    rows: Sequence[Mapping[str, str]]


Parts = list[str | Chart | Table]


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
    environment.tests["figure"] = lambda cell: re.fullmatch(r"[-\d.,]+", cell) is not None
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
        rows = dict(summary_rows(read_json(folder.summary)))
        result = [pairs("The last weights, and the cost of an epoch", rows)]
    if folder.relations.exists():
        table = pd.read_csv(folder.relations)
        table = table.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
        result.append(charts.relations(table.assign(name=table.name.str.replace("_", " "))))
    picture: Parts = ["There is no picture; it is drawn when a run ends."]
    if folder.picture.exists():
        data = b64encode(folder.picture.read_bytes()).decode()
        title = "Frames of an unseen video: the truth, the prediction, the best triplets"
        picture = [Chart(title, f'<img alt="" src="data:image/png;base64,{data}"/>')]
    training: Parts = ["No step has been logged yet."]
    if len(lines):
        epochs, evaluations = (lines[lines.kind == kind] for kind in ("epoch", "eval"))
        training = [charts.losses(lines)]
        training += [charts.recall_by_step(evaluations)] if len(evaluations) > 1 else []
        training += [Table("By epoch", [epoch_row(line) for line in epochs.to_dict("records")])]
    return {
        "Results": result,
        "An unseen video": picture,
        "Losses and time": training,
        "Config": [pairs("Every key", texts(folder.saved_config()))],
        "Commit and machine": [pairs("Where it was trained", texts(read_json(folder.made_on)))],
    }


def read_progress(folder: RunFolder) -> pd.DataFrame:
    """Return the lines of metrics.jsonl, with `at`, the step of the whole run."""
    lines = pd.DataFrame([line for _, line in read_lines(folder.metrics)])
    if lines.empty:
        return lines
    ends = lines[lines.kind == "epoch"].set_index("epoch").step.cumsum()
    return lines.assign(at=lines.step + (lines.epoch - 1).map(ends).fillna(0))


def epoch_row(line: Mapping[Any, Any]) -> dict[str, str]:
    return {name: form.format(line[name]) for name, form in FORMATS.items()}


def pairs(title: str, lines: Mapping[str, str]) -> Table:
    return Table(title, [{"what": name, "value": value} for name, value in lines.items()])


def texts(groups: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config to ``group.key`` -> value as on a command line."""
    (values,) = pd.json_normalize({**groups}).to_dict("records")
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}

"""Sections of a run's page: its results and costs in tables and charts."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from training.folder import RunFolder, read_json, read_lines
from training.printing import summary_rows
from training.report import charts
from training.report.charts import Chart

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
        picture = [Chart(title, f'<img alt="" src="data:image/png;base64,{data}"/>', title)]
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
    lines: dict[str, str] = {}
    for key, value in groups.items():
        if isinstance(value, dict):
            lines |= {f"{key}.{name}": text for name, text in texts(value).items()}
        else:
            lines[key] = value if isinstance(value, str) else json.dumps(value)
    return lines

"""Record of one run from its folder: config, lines of metrics.jsonl, end, machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bload import InputError
from training.folder import metric_lines, read_object

MADE_ON = "made_on.json"
RELATIONS = "relations.csv"
"""File of the rows of `relation_rows` at the end."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """Contents of a run's folder."""

    path: Path
    config: Row
    steps: list[Row]
    """Lines of metrics.jsonl by kind; so are `epochs`, one per epoch, and `evals`."""
    epochs: list[Row]
    evals: list[Row]
    """Figures on the validation videos."""
    summary: Row
    """Figures of the whole run; empty until it ends."""
    made_on: Row
    """Machine, versions and commit, from `environment`."""


def read_record(path: Path) -> Record:
    """Read a run; raises `InputError` if `path` is not a run's folder or a file cannot be read."""
    if not (path / "config.json").is_file():
        raise InputError(
            f"{path} is not the folder of a run; name one that train.py printed, such as runs/NAME"
        )
    lines: dict[str, dict[tuple[int, int], Row]] = {"step": {}, "epoch": {}, "eval": {}}
    for _, line in metric_lines(path / "metrics.jsonl"):
        if line["kind"] in lines:
            step = 0 if line["kind"] == "epoch" else line["step"]
            lines[line["kind"]][line["epoch"], step] = line
    steps, epochs, evals = (list(rows.values()) for rows in lines.values())
    config, made_on = read_object(path / "config.json"), read_object(path / MADE_ON)
    end = path / "summary.json"
    summary = read_object(end) if end.exists() else {}
    return Record(path, config, steps, epochs, evals, summary, made_on)

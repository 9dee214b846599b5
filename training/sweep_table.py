"""The table at the end of a sweep: padding, deletion, seconds per epoch, Recall@20 of its runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from tabulate import tabulate

from datasets.files import write_whole
from training.config import CONFIGS
from training.jobs import EndedJob
from training.paper_figures import MARKS, cell, is_papers_loader

COLUMNS = {
    "padding": (0, "padding"),
    "deleted": (0, "deleted"),
    "steps": (0, "steps"),
    "seconds": (1, "epoch_seconds"),
    "speed": (2, None),
    "recall": (2, "with/recall@20"),
}
"""Name of a figure -> its digits, and its key in a run's summary."""
UNITS = "Per epoch: slots of padding, deleted frames, steps, seconds. Recall@20 in percent."
NEAR_ZERO = "A Recall@20 near 0 is normal for short runs: so few steps teach nothing."
SPEED = "Speed: naive = 1, by the seconds of runs one after another, which other programs change."


def name_rows(jobs: Sequence[EndedJob]) -> list[str]:
    """Name jobs by what differs between them, but for the seed; a loader by its name alone."""
    lines = [[o for o in job.overrides if "train.seed=" not in o] for job in jobs]
    common = set.intersection(*map(set, lines))
    names = [" ".join(o for o in line if o not in common) for line in lines]
    return [name.removeprefix("loader=") or "all" for name in names]


def tabulate_jobs(jobs: Sequence[EndedJob]) -> list[dict[str, Any]]:
    """Return figures of the jobs that did not fail: a row per name, means over seeds.

    Keys: ``run``, ``runs`` and those of `COLUMNS`; with ``paper_`` before them the paper's figures,
    as texts, for runs on videos of Action Genome's lengths.
    """
    finished: dict[str, list[Mapping[str, Any]]] = {}
    for name, job in zip(name_rows(jobs), jobs, strict=True):
        if "padding" in job.result and not job.status:  # eval.py's have none
            finished.setdefault(name, []).append(job.result)
    rows: list[dict[str, Any]] = []
    for name, runs in finished.items():
        keys = {figure: key for figure, (_, key) in COLUMNS.items() if key}
        row = {figure: fmean(run[key] for run in runs) for figure, key in keys.items()}
        rows.append({"run": name, "runs": len(runs), **row, "recall": 100 * row["recall"]})
        if is_papers_loader(runs[0]):
            rows[-1] |= {f"paper_{key}": cell(runs[0]["loader"], key) for key in COLUMNS}
    naive = [row["seconds"] for row in rows if row["run"] == "naive"]
    for row in rows if naive else []:
        row["speed"] = naive[0] / row["seconds"]
    return rows


def format_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format `tabulate_jobs` in Markdown, with what the marks mean."""
    shown = {name: digits for name, (digits, _) in COLUMNS.items() if name in rows[0]}
    lines: list[list[Any]] = [["", *shown, "runs"]]
    for row in rows:
        figures = (f"{row[name]:,.{digits}f}" for name, digits in shown.items())
        lines.append([row["run"], *figures, row["runs"]])
        if any(papers := [row.get(f"paper_{name}", "") for name in shown]):
            lines.append(["in the paper", *papers, ""])
    sides = ["left", *["right"] * (len(shown) + 1)]
    text = tabulate(lines, (), "pipe", disable_numparse=True, colalign=sides)
    rule, heads, *others = text.splitlines()  # headings of tabulate are wider than their words
    table = "\n".join([heads, rule, *others])
    notes = [UNITS, *([SPEED] if "speed" in shown else [])]
    notes += [NEAR_ZERO] if min(row["recall"] for row in rows) < 5 else []
    notes += [f"`{mark}` {words}." for mark, words in MARKS.items() if mark in table]
    return "\n\n".join([table, *(fill(note, width=79) for note in notes)])


def close_sweep(jobs: Sequence[EndedJob]) -> str:
    """Write table.md and table.csv beside the runs; return the table, and what failed.

    Without a finished run nothing is written.
    """
    import pandas as pd  # slow

    failed = ((" ".join(job.overrides), job.result["error"]) for job in jobs if job.status)
    errors = [f"failed: {overrides}: {error}" for overrides, error in failed]
    if not (rows := tabulate_jobs(jobs)):
        return "\n".join(errors)
    folder = next(Path(job.result["folder"]).parent for job in jobs if "folder" in job.result)
    write_whole(folder / "table.csv", pd.DataFrame(rows).to_csv(index=False))
    text = format_table(rows)
    write_whole(folder / "table.md", f"{text}\n")
    study = folder.name.removesuffix("_quick")
    parts = f"experiments/{study}.py", f"configs/experiment/{study}.yaml"
    if all((CONFIGS.parent / part).exists() for part in parts):
        errors.insert(0, f"all figures: python -m experiments.{study} {folder}")
    return "\n".join([text, f"\nwritten to {folder / 'table.md'} and table.csv", *errors])

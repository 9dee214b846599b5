"""The table at the end of a sweep: padding, deletion, seconds per epoch and Recall@20 of its runs.

The paper's figure stands in brackets beside those of runs on videos of Action Genome's lengths.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from tabulate import SEPARATING_LINE, tabulate

from datasets.files import write_whole
from training import paper

if TYPE_CHECKING:
    from training.jobs import Job

FIGURES = {
    "padding": ("padded\nslots per\nepoch", 0, "padding"),
    "deleted": ("deleted\nframes per\nepoch", 0, "deleted"),
    "seconds": ("seconds\nper epoch", 1, "epoch_seconds"),
    "speed": ("speed,\nnaive = 1", 2, None),
    "recall": ("Recall@20,\n%", 2, "with/recall@20"),
}
"""Name of a figure -> lines of its heading, its digits, and its key in a run's summary."""


def name_rows(jobs: Sequence["Job"]) -> list[str]:
    """Name jobs by what differs between them, but for the seed; a loader by its name alone."""
    lines = [[o for o in job.overrides.split() if "train.seed=" not in o] for job in jobs]
    common = set.intersection(*map(set, lines))
    names = [" ".join(o for o in line if o not in common) for line in lines]
    return [name.removeprefix("loader=") or "all" for name in names]


def tabulate_jobs(jobs: Sequence["Job"]) -> list[dict[str, Any]]:
    """Return figures of the jobs that did not fail: a row per name, means over seeds.

    Keys: ``run``, ``runs`` and those of `FIGURES`; with ``paper_`` before them the paper's figures,
    as texts, for runs on videos of Action Genome's lengths.
    """
    finished: dict[str, list[Mapping[str, Any]]] = {}
    for name, job in zip(name_rows(jobs), jobs, strict=True):
        if job.result and not job.status:
            finished.setdefault(name, []).append(job.result)
    rows: list[dict[str, Any]] = []
    for name, runs in finished.items():
        keys = {figure: key for figure, (*_, key) in FIGURES.items() if key}
        row = {figure: fmean(run[key] for run in runs) for figure, key in keys.items()}
        rows.append({"run": name, "runs": len(runs), **row, "recall": 100 * row["recall"]})
        if paper.is_papers_loader(runs[0]):
            rows[-1] |= {f"paper_{key}": paper.cell(runs[0]["loader"], key) for key in FIGURES}
    naive = [row["seconds"] for row in rows if row["run"] == "naive"]
    for row in rows if naive else []:
        row["speed"] = naive[0] / row["seconds"]
    return rows


def format_table(rows: Sequence[Mapping[str, Any]], form: str = "pipe") -> str:
    """Format `tabulate_jobs`, with what the marks mean.

    Args:
        form: ``pipe``, which is Markdown, or ``simple``, for a terminal of 80 columns.
    """
    shown = {key: form for key, form in FIGURES.items() if key in rows[0]}
    cells = []
    for row in rows:
        known = {key: row.get(f"paper_{key}") for key in shown}
        texts = (
            f"{row[key]:,.{digits}f}" + (f"\n({known[key]})" if known[key] else "")
            for key, (_, digits, _) in shown.items()
        )
        cells.append([row["run"], *texts, row["runs"]])
    table = [["", *(heading for heading, *_ in shown.values()), "runs"], *cells]
    sides = ["left", *["right"] * (len(table[0]) - 1)]
    if form == "pipe":
        table = [[str(cell).replace("\n", " ") for cell in line] for line in table]
        text = tabulate(table, "firstrow", form, disable_numparse=True, colalign=sides)
    else:  # without tabulate's headings, which are wider than their words
        table.insert(1, SEPARATING_LINE)
        text = tabulate(table, (), form, disable_numparse=True, colalign=sides)
    notes = ["In brackets: the paper's figures."] * ("(" in text)
    notes += [f"`{mark}` {words}." for mark, words in paper.MARKS.items() if mark in text]
    return "\n\n".join([text, *map(partial(fill, width=79), notes)])


def close_sweep(jobs: Sequence["Job"]) -> str:
    """Write table.md and table.csv beside the runs; return the table, and what failed.

    Without a finished run nothing is written.
    """
    import pandas as pd  # slow

    errors = [f"failed: {job.overrides}: {job.result['error']}" for job in jobs if job.status]
    if not (rows := tabulate_jobs(jobs)):
        return "\n".join(errors)
    folder = next(Path(job.result["folder"]).parent for job in jobs if "folder" in job.result)
    write_whole(folder / "table.csv", pd.DataFrame(rows).to_csv(index=False))
    write_whole(folder / "table.md", f"{format_table(rows)}\n")
    text = format_table(rows, "simple")
    return "\n".join([text, f"\nwritten to {folder / 'table.md'} and table.csv", *errors])

"""Benchmarks of the library: one module for each thing that is measured, and what they share.

A module has `measure`, which yields rows, and `TABLES`, which names the columns of each table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

from experiments.study import RESULTS, ROOT
from training.config import TrainJob, compose_job

PERFORMANCE, CSV = ROOT / "docs" / "performance.md", RESULTS / "benchmarks"
Row = dict[str, Any]
"""Figures by the names of their columns; `table` names the table that the row belongs to."""
QUICK_VIDEOS = {"train_videos": 24, "test_videos": 4, "validation_videos": 1, "final_videos": 1}


@dataclass(frozen=True)
class Table:
    """A caption, and each column's format as in `format`; "" for words.

    Rows that are alike in the columns `by`, if there are any, become their mean.
    """

    caption: str
    columns: dict[str, str]
    by: tuple[str, ...] = ()

    def markdown(self, rows: pd.DataFrame) -> str:
        """Format the rows under their caption, in the columns that they have; gaps stay empty."""
        if self.by:
            rows = rows.groupby([*self.by], sort=False, as_index=False).mean(numeric_only=True)
        columns = {name: how for name, how in self.columns.items() if name in rows}
        cells = [
            ["" if pd.isna(row[name]) else format(row[name], how) for name, how in columns.items()]
            for row in rows[[*columns]].to_dict("records")
        ]
        sides = ["right" if how else "left" for how in columns.values()]
        table = tabulate(cells, [*columns], "pipe", disable_numparse=True, colalign=sides)
        return f"{self.caption}\n\n{table}"


def in_markdown(rows: pd.DataFrame, kinds: Mapping[str, Table]) -> str:
    """Format the tables that have rows, and the machine and versions that measured them."""
    there = [name for name in kinds if name in {*rows.table}]
    parts = [kinds[name].markdown(rows[rows.table == name]) for name in there]
    commits = {f"{of[:7]}{of[40:]}" for of in rows.commit.fillna("unknown")}  # of[40:]: -dirty
    machine, version = "; ".join(rows.cpu.unique()), "; ".join(rows.torch.unique())
    parts.append(f"{machine}, PyTorch {version}, commit {', '.join(sorted(commits))}.")
    return "\n\n".join(parts)


def job(quick: bool, *overrides: str) -> TrainJob:
    """Return the first run's job, on frames decoded before; a `quick` one has fewer videos."""
    small = [f"dataset.{key}={count}" for key, count in QUICK_VIDEOS.items()] if quick else []
    cache = f"dataset.cache=data/cache64{'-quick' if quick else ''}"
    chosen = ("loader=bload_exact", "train.workers=0", cache, *small, *overrides)
    made: TrainJob = compose_job("train", chosen)
    return made

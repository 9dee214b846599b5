"""Benchmarks of the library: one module for each thing that is measured, and what they share.

A module has `measure`, which yields rows, and `TABLES`, which names the columns of each table.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

Row = dict[str, Any]
"""Figures by the names of their columns; `table` names the table that the row belongs to."""
FEW_VIDEOS = [f"dataset.{split}_videos=4" for split in ("test", "validation", "final")]


@dataclass(frozen=True)
class Table:
    """A caption, and each column's format as in `format`; "" for words.

    Rows that are alike in the columns `by`, if there are any, become their mean.
    """

    caption: str
    columns: dict[str, str]
    by: tuple[str, ...] = ()

    def markdown(self, rows: pd.DataFrame) -> str:
        """Format the rows under their caption, in the columns that any has; gaps stay empty."""
        if self.by:
            rows = rows.groupby([*self.by], sort=False, as_index=False).mean(numeric_only=True)
        known = rows.dropna(axis=1, how="all")
        forms = {name: form for name, form in self.columns.items() if name in known}
        cells = [
            ["" if pd.isna(row[name]) else format(row[name], form) for name, form in forms.items()]
            for row in rows.to_dict("records")
        ]
        sides = ["right" if form else "left" for form in forms.values()]
        table = tabulate(cells, [*forms], "pipe", disable_numparse=True, colalign=sides)
        return f"{self.caption}\n\n{table}"


def format_tables(rows: pd.DataFrame, tables: dict[str, Table]) -> str:
    """Format the tables that have rows, and the machine and versions that measured them."""
    groups = dict([*rows.groupby("table")])
    parts = [table.markdown(groups[name]) for name, table in tables.items() if name in groups]
    names = rows.commit.fillna("unknown")
    commits = {f"{name[:7]}{name[40:]}" for name in names}  # beyond 40: -dirty
    machine, version = "; ".join(rows.cpu.unique()), "; ".join(rows.torch.unique())
    parts.append(f"{machine}, PyTorch {version}, commit {', '.join(sorted(commits))}.")
    return "\n\n".join(parts)

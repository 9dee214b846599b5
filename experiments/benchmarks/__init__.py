"""Benchmarks of the library: one module for each thing that is measured, and what they share.

A module has `measure`, which yields rows, `TABLES`, which names the columns of each table, and
`CODE`, the files and folders that it times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import yaml
from tabulate import tabulate

from datasets.config import SyntheticConfig
from experiments.study import RESULTS
from models.config import LossConfig, ModelConfig
from training.config import CONFIGS, TrainConfig, TrainJob
from training.loader_config import loader_schema

CSV = RESULTS / "benchmarks"
Row = dict[str, Any]
"""Figures by the names of their columns; `table` names the table that the row belongs to."""
ROOTS = "data/synthetic-{train_videos}-{test_videos}-{validation_videos}-{final_videos}"
ROOTS += "-{image_size}px-s{seed}"
HEADS = {
    "empty": "padded",
    "of one rank, same work each": "weak scaling",
    "of one rank, same work in all": "strong scaling",
    "of the ranks, %": "efficiency, %",
    "the same by `window`, %": "efficiency by `window`, %",
}
"""Columns of the rows whose heads in tables differ."""
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
        forms = {name: form for name, form in self.columns.items() if name in rows}
        cells = [
            ["" if pd.isna(row[name]) else format(row[name], form) for name, form in forms.items()]
            for row in rows.to_dict("records")
        ]
        sides = ["right" if form else "left" for form in forms.values()]
        heads = [HEADS.get(name, name) for name in forms]
        table = tabulate(cells, heads, "pipe", disable_numparse=True, colalign=sides)
        return f"{self.caption}\n\n{table}"


def format_tables(rows: pd.DataFrame, kinds: Mapping[str, Table]) -> str:
    """Format the tables that have rows, and the machine and versions that measured them."""
    tables = dict([*rows.groupby("table")])
    parts = [kind.markdown(tables[name]) for name, kind in kinds.items() if name in tables]
    names = rows.commit.fillna("unknown")
    commits = {f"{name[:7]}{name[40:]}" for name in names}  # beyond 40: -dirty
    machine, version = "; ".join(rows.cpu.unique()), "; ".join(rows.torch.unique())
    parts.append(f"{machine}, PyTorch {version}, commit {', '.join(sorted(commits))}.")
    return "\n\n".join(parts)


def make_job(
    quick: bool, loader: str = "bload_exact", network: str = "dds_tiny", **changes: dict[str, Any]
) -> TrainJob:
    """Return the job ``train.py loader=LOADER model=NETWORK``, without workers and without Hydra.

    A `quick` one has fewer videos. `changes` are new values by the names of their groups.
    """

    def read(name: str) -> Any:
        return yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())

    recipe, data = read(f"recipe/{network}"), read("dataset/synthetic")
    del data["defaults"]
    data |= QUICK_VIDEOS if quick else {}
    data |= {"frame_size": 2 * [data["image_size"]], "cache": "data/cache64" + "-quick" * quick}
    data |= changes.get("dataset", {})
    data["root"] = ROOTS.format(**data)
    return TrainJob(
        loader=loader_schema(loader)(loader),
        dataset=SyntheticConfig(**data),
        model=ModelConfig(**read(f"model/{network}") | changes.get("model", {})),
        loss=LossConfig(**recipe["loss"]),
        train=TrainConfig(**recipe["train"] | {"workers": 0} | changes.get("train", {})),
    )

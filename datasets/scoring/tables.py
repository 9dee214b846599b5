"""Figures of a `RecallMeter` as text and as tidy rows.

R = 26 relations. Recalls are fractions 0..1 in rows and percent in text.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from datasets.annotations.vocabulary import GROUPS, RELATIONS
from datasets.files import write_whole
from datasets.scoring.ranking import CONSTRAINTS, KS
from datasets.scoring.recall import RecallMeter

MEASURES = {"recall": "R", "mean_recall": "mR", "pooled_mean_recall": "pooled mR"}
"""Measures of `RecallMeter.summary` and their short names."""


def relation_rows(meter: RecallMeter, checkpoint: str) -> list[dict[str, Any]]:
    """Return one row per constraint, K and relation.

    ``group`` is attention, spatial or contacting; ``triplets`` and ``frames`` count the ground
    truth and the frames that have it; ``recall`` is the mean over those frames, ``pooled_recall``
    found / ground truth, both NaN where there is nothing to find.
    """
    groups = [key.removesuffix("_relationship") for key in GROUPS]
    triplets, frames = meter.class_counts()
    tables = [
        pd.DataFrame(
            {
                "checkpoint": checkpoint,
                "constraint": constraint,
                "k": k,
                "name": RELATIONS,
                "group": np.repeat(groups, [part.stop - part.start for part in GROUPS.values()]),
                "triplets": triplets,
                "frames": frames,
                "recall": meter.class_recalls(constraint, k),
                "pooled_recall": meter.class_recalls(constraint, k, pooled=True),
            }
        )
        for constraint, k in product(CONSTRAINTS, KS)
    ]
    return pd.concat(tables).to_dict("records")


def write_relations(path: Path | str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of `relation_rows` as CSV; NaN becomes an empty cell."""
    write_whole(path, pd.DataFrame(rows).to_csv(index=False))


def format_recall(figures: Mapping[str, float]) -> str:
    """Format the figures in percent: a line per constraint and measure, a column per K."""
    unseen = figures.get("unseen_triplets")
    measures = [(label, f"{measure}@{{}}") for measure, label in MEASURES.items()]
    measures += [("R unseen", "recall@{}_unseen")] if unseen else []
    rows = [
        (constraint, label, *(100 * figures[f"{constraint}/{key.format(k)}"] for k in KS))
        for constraint in CONSTRAINTS
        for label, key in measures
    ]
    table = tabulate(rows, ("constraint", "measure", *(f"@{k}" for k in KS)), floatfmt=".2f")
    words = f"{unseen:,.0f} relations" if unseen else "none in this split"
    return table if unseen is None else f"{table}\nunseen in training: {words}"


def format_comparison(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Format a line per checkpoint: name -> its figures, or ``{"error": sentence}``."""
    columns = {f"R@{k}": f"with/recall@{k}" for k in KS}
    columns |= {"mR@20": "with/mean_recall@20"}
    columns |= {"R@20 semi": "semi/recall@20", "R@20 no constraint": "no/recall@20"}
    columns |= {"R@20 needs memory": "with/recall@20_memory"}
    columns |= {"R@20 unseen": "with/recall@20_unseen"}
    known = {key for figures in results.values() for key in figures}
    columns = {head: key for head, key in columns.items() if key in known}
    rows = [
        (
            name,
            figures["t_max"],
            f"{figures['epoch']} of {figures['epochs']}",
            f"{figures['frames']:,.0f}",
            *(100 * figures[key] if key in figures else None for key in columns.values()),
        )
        for name, figures in results.items()
        if "error" not in figures
    ]
    headers, text = ("checkpoint", "T_max", "epochs", "frames", *columns), [0] if rows else False
    table = tabulate(rows, headers, floatfmt=".2f", missingval="-", disable_numparse=text)
    errors = {name: figures["error"] for name, figures in results.items() if "error" in figures}
    return "\n".join([table, *(f"{name}  not evaluated: {e}" for name, e in errors.items())])

"""The figures of a `RecallMeter` as text and as tidy rows.

R = 26 relations. Recalls are fractions 0..1 in rows and percent in text.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets.annotations.vocabulary import GROUPS, RELATIONS
from datasets.scoring.ranking import CONSTRAINTS, KS
from datasets.scoring.recall import Constraint, RecallMeter

MEASURES = {"recall": "R", "mean_recall": "mR", "pooled_mean_recall": "pooled mR"}
"""Measures of `RecallMeter.summary` and their short names."""

ROW_KEYS = ("checkpoint", "constraint", "k", "kind", "name", "group", "triplets", "frames")
ROW_KEYS += ("recall", "pooled_recall")
GROUP_NAMES = tuple(key.removesuffix("_relationship") for key in GROUPS)


def relation_rows(
    meter: RecallMeter, checkpoint: str, ks: Sequence[int] = KS
) -> list[dict[str, object]]:
    """One row a (constraint, K, relation or group), with the keys of `ROW_KEYS`.

    ``kind`` is ``relation`` or ``group``; ``triplets`` and ``frames`` count the ground truth and
    the frames that have it; ``recall`` is the mean over those frames, ``pooled_recall`` found /
    ground truth, both None where there is nothing to find.
    """
    group_of = {
        r: name
        for name, part in zip(GROUP_NAMES, GROUPS.values(), strict=True)
        for r in RELATIONS[part]
    }
    triplets_R, frames_R = meter.relation_counts()
    triplets_3, frames_3 = meter.group_counts()
    rows = []
    for constraint in CONSTRAINTS:
        for k in ks:
            parts = (
                ("relation", RELATIONS, triplets_R, frames_R, meter.relation_recalls),
                ("group", GROUP_NAMES, triplets_3, frames_3, meter.group_recalls),
            )
            for kind, names, triplets, frames, recalls in parts:
                columns = (recalls(constraint, k), recalls(constraint, k, pooled=True))
                for i, name in enumerate(names):
                    mean, pooled = (None if np.isnan(c[i]) else float(c[i]) for c in columns)
                    row = (checkpoint, constraint, k, kind, name, group_of.get(name, name))
                    row += (int(triplets[i]), int(frames[i]), mean, pooled)
                    rows.append(dict(zip(ROW_KEYS, row, strict=True)))
    return rows


def write_relations(path: Path | str, rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows of `relation_rows` as CSV; a recall of nothing is an empty cell."""
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, ROW_KEYS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def format_recall(figures: Mapping[str, float], ks: Sequence[int] = KS) -> str:
    """The figures in percent: a line a constraint and measure, a column a K."""
    header = "constraint  measure    " + "".join(f"@{k}".rjust(8) for k in ks)
    lines = [header, "-" * len(header)]
    for constraint in CONSTRAINTS:
        for measure, short in MEASURES.items():
            cells = [f"{100 * figures[f'{constraint}/{measure}@{k}']:8.2f}" for k in ks]
            lines.append(f"{constraint:<12}{short:<11}{''.join(cells)}")
    return "\n".join(lines)


def format_comparison(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A line a checkpoint: name -> figures, or ``{"error": sentence}`` for one without figures."""
    columns = {f"R@{k}": f"with/recall@{k}" for k in KS}
    columns |= {"mR@20": "with/mean_recall@20"}
    columns |= {"semi R@20": "semi/recall@20", "no R@20": "no/recall@20"}
    memory = "with/recall@20_memory"  # synthetic data have it
    if any(memory in figures for figures in results.values()):
        columns |= {"memory R@20": memory}
    width = max(len("checkpoint"), *map(len, results))
    header = "checkpoint".ljust(width) + "   frames" + "".join(f"  {name}" for name in columns)
    lines = [header, "-" * len(header)]
    for name, figures in results.items():
        if "error" in figures:
            lines.append(f"{name:<{width}}  not evaluated: {figures['error']}")
            continue
        cells = [
            f"{100 * figures.get(key, np.nan):{len(title) + 2}.2f}"
            for title, key in columns.items()
        ]
        lines.append(f"{name:<{width}}{figures['frames']:9,.0f}{''.join(cells)}")
    return "\n".join(lines)


def format_relations(meter: RecallMeter, constraint: Constraint = "with", k: int = 20) -> str:
    """Recall of every relation in percent beside its ground truth: a column a group."""
    recalls_R, (triplets_R, _) = meter.relation_recalls(constraint, k), meter.relation_counts()
    recalls_3, (triplets_3, _) = meter.group_recalls(constraint, k), meter.group_counts()
    columns = []
    for group, part in enumerate(GROUPS.values()):
        names = (GROUP_NAMES[group].upper(), *RELATIONS[part])
        recalls = (recalls_3[group], *recalls_R[part])
        triplets = (triplets_3[group], *triplets_R[part])
        width = max(map(len, names))
        columns.append(
            [
                f"{name:<{width}}{'-' if not n else f'{100 * recall:.1f}':>6}{n:>8,}"
                for name, recall, n in zip(names, recalls, triplets, strict=True)
            ]
        )
    rows = range(max(map(len, columns)))
    cells = [
        [column[row] if row < len(column) else " " * len(column[0]) for column in columns]
        for row in rows
    ]
    title = f"R@{k} {constraint} constraint and number of ground-truth triplets, by relation"
    return "\n".join([title, *("   ".join(row).rstrip() for row in cells)])

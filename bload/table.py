"""The padding table: what each loader pads and deletes, beside the paper and the provable limit."""

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bload.packers import CUTS_CLIPS, make_plan, natural_t_max
from bload.pieces import Long
from bload.randomness import partner_information, repeat_share


@dataclass(frozen=True, slots=True)
class PaperRow:
    """What the paper reports for one loader. Times are minutes an epoch on its own machine."""

    padding: int | None = None
    deleted: int | None = None
    minutes: float | None = None
    recall_at_20: float | None = None


PAPER = {
    "naive": PaperRow(padding=534_831, deleted=0, minutes=170),
    "sampling": PaperRow(padding=0, deleted=92_271, recall_at_20=41.2),
    "mix": PaperRow(padding=37_712, deleted=40_289, minutes=40),
    "bload": PaperRow(padding=3_695, deleted=0, minutes=41, recall_at_20=43.3),
}

NOT_DERIVABLE = (
    "3,695 cannot be derived: k full blocks of 94 hold 166,785 frames with 94 k - 166,785 slots of "
    "padding, which is 3,637 for 1,814 blocks and 3,731 for 1,815, never 3,695 (3,731 less the 36 "
    "unpadded slots of one last block of 58 frames would be)"
)


@dataclass(frozen=True, slots=True)
class Loader:
    """One row to compute: a packer with its options."""

    name: str
    packer: str
    options: dict


LOADERS = (
    Loader("naive", "naive", {}),
    Loader("sampling", "sampling", {}),
    Loader("sampling clips=all", "sampling", {"clips": "all"}),
    Loader("mix", "mix", {}),
    Loader("bload draw=length", "bload", {"draw": "length"}),
    Loader("bload", "bload", {}),
    Loader("bload_exact", "bload_exact", {}),
)


def table_rows(
    lengths: np.ndarray,
    *,
    t_max: int | None = None,
    clip: int | None = None,
    long: Long = "error",
    seed: int = 0,
    epochs: int = 1,
    is_paper: bool = False,
    randomness: bool = False,
) -> list[dict]:
    """One dict a loader; counts are means over epochs where they vary between epochs.

    Args:
        lengths: frames of every sequence.
        t_max: block size of the loaders that keep sequences whole; None for the longest.
        clip: block size of sampling and mix; None for floor(mean length).
        long: what becomes of sequences longer than `t_max`.
        epochs: plans drawn a loader.
        is_paper: the lengths are Action Genome's training split: show the paper's figures where
            they hold (T_max 94 and clips of 22).
        randomness: add ``repeat_share`` and ``partner_information`` (at least two epochs are drawn
            for them), None for loaders that never put two sequences together.
    """
    rows = []
    for loader in LOADERS:
        options = dict(loader.options)
        if loader.packer in CUTS_CLIPS:
            size, papers_size = clip or natural_t_max(lengths, loader.packer), 22
        else:
            size, papers_size = t_max or natural_t_max(lengths, loader.packer), 94
            options["long"] = long
        seconds, plans = [], []
        for epoch in range(max(epochs, 2) if randomness else epochs):
            began = time.perf_counter()
            plans.append(make_plan(lengths, loader.packer, size, seed, epoch, **options))
            seconds.append(time.perf_counter() - began)
        counted = plans[:epochs]
        paper = PAPER.get(loader.name) if is_paper and size == papers_size else None
        row = {
            "loader": loader.name,
            "t_max": size,
            "sequences": plans[0].sequences,
            "frames": plans[0].frames,
            "blocks": _mean([plan.blocks for plan in counted]),
            "padding": _mean([plan.padding for plan in counted]),
            "padding_min": min(plan.padding for plan in counted),
            "padding_max": max(plan.padding for plan in counted),
            "deleted": _mean([plan.deleted for plan in counted]),
            "processed": _mean([plan.processed for plan in counted]),
            "utilisation": float(np.mean([plan.utilisation for plan in counted])),
            "lower_bound_blocks": _mean([plan.lower_bound for plan in counted]),
            "lower_bound_padding": _mean([plan.lower_bound_padding for plan in counted]),
            "paper_padding": paper.padding if paper else None,
            "paper_deleted": paper.deleted if paper else None,
            "epochs": epochs,
            "seconds": float(np.median(seconds)),
        }
        if randomness:
            together = any(plan.segments > plan.blocks for plan in plans)
            shares = [repeat_share(one, two) for one, two in pairwise(plans)]
            row["repeat_share"] = float(np.mean(shares)) if together else None
            row["partner_information"] = partner_information(plans) if together else None
        rows.append(row)
    return rows


def _mean(counts: list[int]) -> int | float:
    """The mean, as an int where all agree."""
    return counts[0] if len(set(counts)) == 1 else float(np.mean(counts))


def format_table(rows: list[dict]) -> str:
    """The rows as text for a terminal, one line a loader."""
    columns: list[tuple[str, list[str]]] = [
        ("loader", [row["loader"] for row in rows]),
        ("T_max", [_number(row["t_max"]) for row in rows]),
        ("blocks", [_number(row["blocks"]) for row in rows]),
        ("limit", [_number(row["lower_bound_blocks"]) for row in rows]),
        ("padding", [_number(row["padding"]) for row in rows]),
        ("limit", [_number(row["lower_bound_padding"]) for row in rows]),
        ("paper", [_paper(row, "paper_padding") for row in rows]),
        ("deleted", [_number(row["deleted"]) for row in rows]),
        ("paper", [_number(row["paper_deleted"]) for row in rows]),
        ("seconds", [f"{row['seconds']:.3f}" for row in rows]),
    ]
    if "repeat_share" in rows[0]:
        for name, key in (("repeat", "repeat_share"), ("partner nats", "partner_information")):
            values = [row[key] for row in rows]
            columns.append((name, ["-" if v is None else f"{v:.5f}" for v in values]))
    widths = [max(len(name), *map(len, cells)) for name, cells in columns]
    lines = ["  ".join(name.rjust(w) for (name, _), w in zip(columns, widths, strict=True))]
    lines[0] = columns[0][0].ljust(widths[0]) + lines[0][widths[0] :]
    lines.append("  ".join("-" * width for width in widths))
    for i in range(len(rows)):
        cells = [cells[i] for _, cells in columns]
        right = [cell.rjust(w) for cell, w in zip(cells[1:], widths[1:], strict=True)]
        lines.append("  ".join([cells[0].ljust(widths[0]), *right]))
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _paper(row: dict, key: str) -> str:
    mark = "*" if row["loader"] == "bload" and row[key] is not None else ""
    return _number(row[key]) + mark

"""Table of loaders: padding, deletion and predicted work, beside the lower bound."""

import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from bload.errors import check_whole
from bload.packing.packers import PACKERS, find_packer, make_plan
from bload.packing.pieces import Long
from bload.packing.plan import Plan
from bload.schedule.balance import make_schedule

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "sampling": ({}, {"clips": "all"}),
    "bload": ({"draw": "length"}, {}),
}
"""Options of each row, for packers with several rows."""

COLUMNS = (
    ("loader", "loader", "s"),
    ("T_max", "t_max", ","),
    ("blocks", "blocks", ","),
    ("fewest", "lower_bound", ","),
    ("padding", "padding", ","),
    ("deleted", "deleted", ","),
    ("used", "utilisation", ".1%"),
    ("steps", "steps", ",.0f"),
    ("vs naive", "naive_ratio", ".2f"),
    ("vs ragged", "ragged_ratio", ".2f"),
)
"""Title, key of the row and format of each column."""
NOTES = """
fewest: a lower bound on the blocks of any packing of the kept frames
used: share of the slots of the blocks that hold a frame; fillers left out
vs naive, vs ragged: how many times fewer slots than naive padding or ragged
    batches of this table; fillers, and waiting for other ranks, count
T_max: of sampling and mix the mean length, of ragged the slots of a batch
clips=all: every whole clip of a sequence, not one in each epoch
draw=length: draws a length that fits, then a sequence of it (the authors' code)
"""
COUNTS = "num_blocks", "padding", "deleted", "utilisation", "lower_bound", "lower_bound_padding"


def sized_plan(
    lengths: np.ndarray,
    packer: str,
    t_max: int | None,
    long: Long,
    seed: int,
    epoch: int,
    batch_slots: int = 0,
    **options: Any,
) -> Plan:
    """Make a plan with any packer: of `t_max` slots and `long`, unless it cuts clips.

    Packers that make batches themselves split where others carry.
    """
    rule = find_packer(packer)
    if rule.one_each:  # nobody pads further than to the longest
        t_max = t_max and min(t_max, int(np.max(lengths)))
    long = "split" if long == "carry" and rule.makes_batches else long
    options |= {"long": long} if "long" in rule.options else {}
    options |= {"batch_slots": batch_slots} if "batch_slots" in rule.options else {}
    return make_plan(lengths, packer, None if rule.cuts_clips else t_max, seed, epoch, **options)


def table_rows(
    lengths: np.ndarray,
    *,
    t_max: int | None = None,
    long: Long = "error",
    epochs: int = 1,
    ranks: int = 1,
    batch_slots: int | None = None,
) -> list[dict[str, Any]]:
    """Compute one row per packer and variant; counts that vary between epochs are averaged.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        t_max: slots in a block; None takes the longest length. Clips have floor(mean length).
        ranks: ranks to predict the work for: steps, and slots that ranks compute or wait for. Slots
            predict time but for overheads per step, reading and communication.
        batch_slots: slots per rank and step, as of a loader; None takes those of the largest block.

    Raises:
        InputError: as in `make_plan`.
    """
    check_whole("epochs", epochs, 1)
    batch_slots = batch_slots or t_max or int(lengths.max())
    rows = []
    for packer in PACKERS:
        for options in VARIANTS.get(packer, ({},)):
            plans = [
                sized_plan(lengths, packer, t_max, long, 0, epoch, batch_slots, **options)
                for epoch in range(epochs)
            ]
            name = " ".join([packer, *(f"{key}={value}" for key, value in options.items())])
            row: dict[str, Any] = {"loader": name, "t_max": plans[0].t_max}
            for figure in COUNTS:  # ints where all counts are equal
                counts, key = [getattr(plan, figure) for plan in plans], figure.removeprefix("num_")
                row[key] = counts[0] if len(set(counts)) == 1 else float(np.mean(counts))
            loads = [make_schedule(plan, ranks, batch_slots).loads() for plan in plans]
            row["steps"] = float(np.mean([len(load_SR) for load_SR in loads]))
            row["slots"] = float(np.mean([ranks * load_SR.max(axis=1).sum() for load_SR in loads]))
            rows.append(row)
    slots = {row["loader"]: row["slots"] for row in rows}
    for row in rows:
        row |= {f"{name}_ratio": slots[name] / row["slots"] for name in ("naive", "ragged")}
    return rows


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Format the rows as text, one line per row; on a narrow terminal with fewer columns."""
    cells = [[title, *(_cell(row[key], form) for row in rows)] for title, key, form in COLUMNS]
    cells = [[head, "-" * max(map(len, [head, *rest])), *rest] for head, *rest in cells]
    terminal = shutil.get_terminal_size((200, 24)).columns
    for title in ("fewest", "used"):
        if sum(len(column[1]) + 2 for column in cells) - 2 > terminal:
            cells = [column for column in cells if column[0] != title]
    names, *figures = cells
    lines = zip(
        [name.ljust(len(names[1])) for name in names],
        *([cell.rjust(len(column[1])) for cell in column] for column in figures),
        strict=True,
    )
    return "\n".join(map("  ".join, lines))


def _cell(value: Any, form: str) -> str:
    if form == "," and isinstance(value, float):
        form = ",.1f"  # a mean
    return f"{value:{form}}"

"""Packing alone: Action Genome's real lengths, without training or data."""

from dataclasses import asdict
from functools import cache

import pandas as pd

from bload.draw import label_of
from bload.lengths import action_genome_lengths
from bload.packers import PACKERS, make_plan, packer_options
from bload.paper import PAPER
from bload.table import table_rows
from experiments.report.charts import blocks_chart, line_chart
from experiments.report.figures import Block, Exhibit, note, rows

EPOCHS = 20
"""Plans drawn per loader: BLoad's differ by epoch."""
COMMAND = f"python -m bload table --epochs {EPOCHS}"
T_MAX = (64, 72, 80, 87, 94, 110, 128, 160, 188, 256)
"""Block sizes tried; smaller ones than half the longest video take bload_exact seconds."""


@cache
def packed() -> pd.DataFrame:
    """The padding table of Action Genome's training lengths, a row per loader."""
    found = table_rows(action_genome_lengths("train"), epochs=EPOCHS)
    return pd.DataFrame(found).set_index("loader").reindex(list(PACKERS))


@cache
def paper() -> pd.DataFrame:
    """The paper's table, a row per loader; frames processed and ratios follow from it."""
    given = pd.DataFrame({name: asdict(row) for name, row in PAPER.items()}).T
    found = given[["padding", "deleted", "minutes", "recall_at_20"]].astype(float)
    found = found.reindex(list(PACKERS))
    processed = packed().frames["naive"] + found.padding - found.deleted
    return found.assign(processed=processed, faster=found.minutes["naive"] / found.minutes)


@cache
def blocks() -> list[Block]:
    """The first blocks of each loader."""
    plans = {name: make_plan(action_genome_lengths("train"), name) for name in PACKERS}
    widest = max(plan.t_max for plan in plans.values())
    found: list[Block] = [note("blocks")]
    for name, plan in plans.items():
        says = f"{plan.blocks:,} blocks, {plan.padding:,} padded, {plan.deleted:,} deleted"
        found.append(blocks_chart(f"{label_of(name)}: {says}", plan, 9, widest))
    return found


@cache
def t_max_chart() -> Exhibit:
    """Padding of Action Genome's training lengths against T_max, with the lower bound."""
    lengths, bound, found = action_genome_lengths("train"), "fewest possible", {}
    whole = [name for name in PACKERS if "long" in packer_options(name)]
    for t_max in T_MAX:
        plans = {name: make_plan(lengths, name, t_max, long="split") for name in whole}
        found[t_max] = {name: plan.padding for name, plan in plans.items()}
        found[t_max][bound] = plans["bload"].lower_bound_padding
    table = pd.DataFrame(found).T
    points = table[whole].unstack().rename_axis(["loader", "x"]).reset_index(name="y")
    return line_chart(
        "Padding against T_max, Action Genome's training lengths",
        points,
        ("T_max", "padded frames per epoch"),
        rows("T_max", table.rename(columns=label_of), name=str),
        "Videos longer than T_max are split; one epoch each.",
        log="y",
        others={bound: table[bound]},
    )

"""What packing alone shows: Action Genome's real lengths, without training or data."""

from dataclasses import asdict
from functools import cache

import pandas as pd

from bload.draw import label_of
from bload.lengths import action_genome_lengths
from bload.packers import PACKERS, make_plan
from bload.table import PAPER, table_rows
from experiments.report.charts import blocks_chart, line_chart
from experiments.report.figures import Block, Exhibit, note, rows

EPOCHS = 20
"""Plans drawn per loader: BLoad's differ by epoch."""
COMMAND = f"python -m bload table --epochs {EPOCHS}"
T_MAX = (64, 72, 80, 87, 94, 110, 128, 160, 188, 256)
"""Block sizes tried; smaller ones than half the longest video take bload_exact seconds."""
WHOLE = ["naive", "bload", "bload_exact"]
"""Loaders that keep videos whole."""


@cache
def packed() -> pd.DataFrame:
    """The padding table of Action Genome's training lengths, a row per loader."""
    rows = table_rows(action_genome_lengths("train"), epochs=EPOCHS)
    return pd.DataFrame(rows).set_index("loader").reindex(list(PACKERS))


@cache
def paper() -> pd.DataFrame:
    """The paper's table, a row per loader; frames processed and ratios follow from it."""
    given = {name: asdict(row) for name, row in PAPER.items()}
    found = pd.DataFrame(given, dtype=float).T.reindex(list(PACKERS))
    processed = packed().frames["naive"] + found.padding - found.deleted
    return found.assign(processed=processed, faster=found.minutes["naive"] / found.minutes)


def blocks() -> list[Block]:
    """The first blocks of each loader."""
    plans = {name: make_plan(action_genome_lengths("train"), name) for name in PACKERS}
    widest = max(plan.t_max for plan in plans.values())
    found: list[Block] = [note("blocks")]
    for name, plan in plans.items():
        says = f"{plan.blocks:,} blocks, {plan.padding:,} padded, {plan.deleted:,} deleted"
        title = f"{label_of(name)}: {says}"
        alternative = f"The first 9 blocks of {label_of(name)}, T_max {plan.t_max}: {says}."
        svg = blocks_chart(title, plan, 9, widest)
        found.append(Exhibit(title, [], "", svg, alternative, kind="blocks"))
    return found


@cache
def t_max_chart() -> Exhibit:
    """Padding of Action Genome's training lengths against T_max, with the lower bound."""
    lengths, bound = action_genome_lengths("train"), "fewest possible"
    plans = {(t, name): make_plan(lengths, name, t, long="split") for t in T_MAX for name in WHOLE}
    padded = pd.Series({key: plan.padding for key, plan in plans.items()}).unstack()[WHOLE]
    least = pd.Series({t: plans[t, "bload"].lower_bound_padding for t in T_MAX})
    title = "Padding against T_max, Action Genome's training lengths"
    points = padded.unstack().rename_axis(["loader", "x"]).reset_index(name="y")
    labels = ("T_max", "padded frames per epoch")
    first, last = padded.iloc[0], padded.iloc[-1]
    table = rows("T_max", {**padded.rename(columns=label_of), bound: least}, name=str)
    svg = line_chart(title, points, labels, log="y", others={bound: least})
    text = (
        "Padded frames per epoch on a logarithmic scale: naive padding grows from "
        f"{first.naive:,} at T_max {T_MAX[0]} to {last.naive:,} at {T_MAX[-1]}, BLoad falls from "
        f"{first.bload:,} to {last.bload:,}, BLoad exact stays on the lower bound."
    )
    return Exhibit(title, table, "Videos longer than T_max are split; one epoch each.", svg, text)

"""What packing alone shows: Action Genome's real lengths, without training or data."""

from dataclasses import asdict
from functools import cache

import pandas as pd

from bload.draw import label_of
from bload.lengths import action_genome_lengths
from bload.packers import PACKERS, make_plan, packer_options
from bload.plan import Plan
from bload.table import PAPER, table_rows
from experiments.report.charts import blocks_chart, line_chart
from experiments.report.figures import Block, Exhibit, note, rows

EPOCHS = 20
"""Plans drawn per loader: BLoad's differ by epoch."""
COMMAND = f"python -m bload table --epochs {EPOCHS}"
T_MAX = (64, 72, 80, 87, 94, 110, 128, 160, 188, 256)
"""Block sizes tried; smaller ones than half the longest video take bload_exact seconds."""


def packed() -> pd.DataFrame:
    """The padding table of Action Genome's training lengths, a row per loader."""
    return _packed(tuple(PACKERS))


@cache
def _plans(names: tuple[str, ...]) -> dict[str, Plan]:
    return {name: make_plan(action_genome_lengths("train"), name) for name in names}


@cache
def _packed(names: tuple[str, ...]) -> pd.DataFrame:
    found = table_rows(action_genome_lengths("train"), epochs=EPOCHS)
    return pd.DataFrame(found).set_index("loader").reindex(names)


def paper() -> pd.DataFrame:
    """The paper's table, a row per loader; frames processed and ratios follow from it."""
    given = pd.DataFrame({name: asdict(row) for name, row in PAPER.items()}).T
    found = given[["padding", "deleted", "minutes", "recall_at_20"]].astype(float)
    found = found.reindex(list(PACKERS))
    processed = packed().frames["naive"] + found.padding - found.deleted
    return found.assign(processed=processed, faster=found.minutes["naive"] / found.minutes)


def blocks() -> list[Block]:
    """The first blocks of each loader."""
    plans = _plans(tuple(PACKERS))
    widest = max(plan.t_max for plan in plans.values())
    found: list[Block] = [note("blocks")]
    for name, plan in plans.items():
        says = f"{plan.blocks:,} blocks, {plan.padding:,} padded, {plan.deleted:,} deleted"
        title = f"{label_of(name)}: {says}"
        alternative = f"The first 9 blocks of {label_of(name)}, T_max {plan.t_max}: {says}."
        svg = blocks_chart(title, plan, 9, widest)
        found.append(Exhibit(title, [], "", svg, alternative, kind="blocks"))
    return found


def t_max_chart() -> Exhibit:
    """Padding of Action Genome's training lengths against T_max, with the lower bound."""
    whole = tuple(name for name in PACKERS if "long" in packer_options(name))
    found = _padding_by_t_max(whole, T_MAX)
    padded, bound = found[list(whole)], found["fewest possible"]
    title = "Padding against T_max, Action Genome's training lengths"
    points = padded.unstack().rename_axis(["loader", "x"]).reset_index(name="y")
    labels = ("T_max", "padded frames per epoch")
    first, last = found.iloc[0], found.iloc[-1]
    text = (
        "Padded frames per epoch on a logarithmic scale: naive padding grows from "
        f"{first.naive:,} at T_max {first.name} to {last.naive:,} at {last.name}, BLoad falls from "
        f"{first.bload:,} to {last.bload:,}, BLoad exact stays on the lower bound."
    )
    return Exhibit(
        title,
        rows("T_max", found.rename(columns=label_of), name=str),
        "Videos longer than T_max are split; one epoch each.",
        line_chart(title, points, labels, log="y", others={"fewest possible": bound}),
        text,
    )


@cache
def _padding_by_t_max(names: tuple[str, ...], sizes: tuple[int, ...]) -> pd.DataFrame:
    lengths = action_genome_lengths("train")
    found = {}
    for size in sizes:
        plans = {name: make_plan(lengths, name, size, long="split") for name in names}
        found[size] = {name: plan.padding for name, plan in plans.items()}
        found[size]["fewest possible"] = plans["bload"].lower_bound_padding
    return pd.DataFrame(found).T

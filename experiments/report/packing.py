"""What packing alone says: Action Genome's real lengths, no training and no data set needed."""

from dataclasses import dataclass
from functools import cache

from bload.lengths import action_genome_lengths
from bload.packers import make_plan
from bload.plan import Plan
from bload.table import table_rows
from experiments.report.chart import Point, Series, line_chart, swatch
from experiments.report.document import Chart, Section, Table, Text, number
from experiments.report.drawing import draw_blocks
from experiments.report.names import LOADERS, loader_name, style

EPOCHS = 20
"""Plans drawn a loader: BLoad's differ by epoch."""
T_MAX = (64, 72, 80, 87, 94, 110, 128, 160, 188, 256)
"""Block sizes tried; smaller ones than half the longest video take bload_exact seconds."""
PACKED = ("naive", "bload", "bload_exact")
COMMAND = f"python -m bload table --epochs {EPOCHS}"


@dataclass(frozen=True, slots=True)
class Packed:
    """One loader over `EPOCHS` epochs of Action Genome's training lengths."""

    padding: float
    padding_min: int
    padding_max: int
    deleted: float
    processed: float
    bound: float
    """Padding of the fewest blocks possible."""
    frames: int


@cache
def packed_action_genome() -> dict[str, Packed]:
    """Loader -> what it pads and deletes there."""
    rows = table_rows(action_genome_lengths("train"), epochs=EPOCHS)
    return {
        row["loader"]: Packed(
            row["padding"],
            row["padding_min"],
            row["padding_max"],
            row["deleted"],
            row["processed"],
            row["lower_bound_padding"],
            row["frames"],
        )
        for row in rows
        if row["loader"] in LOADERS
    }


@cache
def _plans() -> dict[str, Plan]:
    return {name: make_plan(action_genome_lengths("train"), name) for name in LOADERS}


@cache
def _padding_by_t_max() -> dict[str, dict[int, tuple[int, int]]]:
    """Loader -> T_max -> (padding, padding of the fewest blocks possible)."""
    lengths = action_genome_lengths("train")
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for name in PACKED:
        plans = {t_max: make_plan(lengths, name, t_max, long="split") for t_max in T_MAX}
        found[name] = {t: (plan.padding, plan.lower_bound_padding) for t, plan in plans.items()}
    return found


def blocks_section() -> Section:
    """The first blocks of each loader."""
    plans = _plans()
    widest = max(plan.t_max for plan in plans.values())
    charts = []
    for name, plan in plans.items():
        says = f"{plan.blocks:,} blocks, {plan.padding:,} padded, {plan.deleted:,} deleted"
        charts.append(
            Chart(
                f"{loader_name(name)}: {says}",
                draw_blocks(plan, 9, widest),
                f"The first 9 blocks of {loader_name(name)} on Action Genome's training lengths, "
                f"T_max {plan.t_max}: {says}.",
            )
        )
    text = (
        "The first blocks of an epoch, from Action Genome's training lengths. Hatched slots "
        "are padding; a dark edge on the left of a video is an entry of the start table: the state "
        "is cleared there."
    )
    return Section("blocks", "Blocks of each loader", (Text(text), *charts))


def t_max_chart() -> Chart:
    """Padding of Action Genome's training lengths against T_max, with the lower bound."""
    found = _padding_by_t_max()
    series = [
        Series(
            loader_name(name),
            tuple(Point(t, padding) for t, (padding, _) in found[name].items()),
            style(name),
        )
        for name in PACKED
    ]
    bound = Series(
        "fewest possible", tuple(Point(t, b) for t, (_, b) in found["bload"].items()), "bound"
    )
    rows = tuple(
        (
            number(t),
            *(number(found[name][t][0]) for name in PACKED),
            number(found["bload"][t][1]),
        )
        for t in T_MAX
    )
    columns = ("T_max", *map(loader_name, PACKED), "fewest possible")
    title = "Padding against T_max, Action Genome's training lengths"
    return Chart(
        title,
        line_chart([*series, bound], "T_max", "padded frames an epoch", log_y=True),
        "Padded frames an epoch on a logarithmic scale: naive padding grows from "
        f"{found['naive'][T_MAX[0]][0]:,} at T_max {T_MAX[0]} to {found['naive'][T_MAX[-1]][0]:,} "
        f"at {T_MAX[-1]}, BLoad falls from {found['bload'][T_MAX[0]][0]:,} to "
        f"{found['bload'][T_MAX[-1]][0]:,}, BLoad exact stays on the lower bound.",
        tuple((swatch(one.style), one.label) for one in [*series, bound]),
        Table(title, columns, rows),
        "Videos longer than T_max are split (`long=split`); one epoch each.",
    )

"""Runs that differ in one key: start tables, what padding holds, temporal parts, T_max."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.report.chart import Bar, Point, Series, interval_chart, line_chart, swatch
from experiments.report.collect import Collection, Run
from experiments.report.comparison import Comparable, comparable
from experiments.report.document import (
    NOTHING,
    Block,
    Cell,
    Chart,
    Missing,
    Section,
    Table,
    interval,
    number,
)
from experiments.report.measured import MEMORY, MEMORY_OF, WITH, mean_figure, recalls
from experiments.report.names import in_order, loader_name, setting, style
from experiments.report.packing import t_max_chart
from experiments.report.statistics import difference, estimate, paired_difference


@dataclass(frozen=True, slots=True)
class Ablation:
    """The experiment, the key that it varies, and the value that the others are compared to."""

    experiment: str
    key: str
    baseline: str
    title: str
    order: tuple[str, ...]


ABLATIONS = (
    Ablation(
        *("reset_ablation", "train.starts", "table", "Where states are cleared"),
        ("table", "ignored", "wrong"),
    ),
    Ablation(
        *("padding_ablation", "train.padding", "masked", "What padding holds in training"),
        ("masked", "repeated"),
    ),
    Ablation(
        *("temporal", "model.temporal", "dds", "Temporal parts"),
        ("dds", "gru", "attention", "scan", "none"),
    ),
)


def ablations_section(collection: Collection) -> Section:
    charts: list[Block] = []
    blocks: list[Block] = []
    for ablation in ABLATIONS:
        found = _runs(collection, ablation)
        if found is None or not found.runs:
            blocks.append(
                Missing(
                    f"{ablation.title}: no finished runs of `{ablation.experiment}` here.",
                    f"python train.py -m experiment={ablation.experiment}",
                )
            )
            continue
        chart, table = _compared(ablation, found)
        charts.append(chart)
        blocks.append(table)
    return Section("ablations", "Ablations", (*charts, *blocks))


def starts_compared(collection: Collection) -> tuple[list[Run], list[Run]] | None:
    """The runs of `reset_ablation` with the start table and with it ignored."""
    found = _runs(collection, ABLATIONS[0])
    if found is None:
        return None
    groups = found.by(lambda run: str(run.get("train.starts")))
    table, ignored = groups.get("table", []), groups.get("ignored", [])
    return (table, ignored) if recalls(table) and recalls(ignored) else None


def by_seed(runs: Sequence[Run]) -> dict[int, float]:
    """Seed -> Recall@20 in percent, of the runs that have it."""
    return {run.seed: value for run in runs if (value := run.percent(WITH)) is not None}


def _runs(collection: Collection, ablation: Ablation) -> Comparable | None:
    experiment = collection.find(ablation.experiment)
    return comparable(experiment.finished, ablation.key) if experiment else None


def _compared(ablation: Ablation, found: Comparable) -> tuple[Chart, Table]:
    groups = found.by(lambda run: str(run.get(ablation.key)))
    names = sorted(groups, key=lambda name: (*_place(ablation.order, name), name))
    base = by_seed(groups.get(ablation.baseline, []))
    rows, bars = [], []
    for i, name in enumerate(names):
        values, memory = recalls(groups[name]), recalls(groups[name], MEMORY)
        against = paired = NOTHING
        if base and name != ablation.baseline:
            against = interval(difference(values, list(base.values())), sign=True)
            between = paired_difference(by_seed(groups[name]), base)
            paired = interval(between, sign=True)
        figure = estimate(values)
        rows.append(
            (
                Cell(name),
                number(len(values)),
                interval(figure),
                against,
                paired,
                interval(estimate(memory)) if memory else NOTHING,
                mean_figure(groups[name], "frames_per_second"),
            )
        )
        bars.append(Bar(name, figure.mean, figure.low, figure.high, i))
    first = found.runs[0]
    note = (
        f"`{ablation.key}`; loader {loader_name(first.loader)}, {setting(first)}; 95 % intervals "
        "by Student's t, of differences by Welch and, seed by seed, by Student's t again: a seed "
        "decides the first weights of one model, the blocks and their order. Frames a second as "
        f"measured, on whatever else the machine did. {found.note}"
    )
    table = Table(
        ablation.title,
        (
            *(ablation.key, "seeds", "Recall@20, %", f"minus {ablation.baseline}, points"),
            *("the same by seed", "must be remembered, %", "frames a second"),
        ),
        tuple(rows),
        note.strip(),
    )
    told = "; ".join(f"{row[0].text} {row[2].text}" for row in rows)
    chart = Chart(
        ablation.title,
        interval_chart(bars, "Recall@20 with constraint, %"),
        f"Recall@20 in percent by {ablation.key}, with 95 % intervals: {told}.",
    )
    return chart, table


def _place(order: Sequence[str], name: str) -> tuple[int, str]:
    return (order.index(name), "") if name in order else (len(order), name)


def _packing(run: Run) -> str:
    """The loader without its sizes, which a sweep over them varies: ``bload draw=length``."""
    options = (part for part in run.loader.split(" ") if not part.startswith(("t_max=", "long=")))
    return " ".join(options)


def t_max_section(collection: Collection) -> Section:
    """Padding against T_max, from lengths alone and from runs."""
    blocks: list[Block] = [t_max_chart()]
    experiment = collection.find("tmax_sweep")
    found = (
        comparable(experiment.finished, "loader.name", "loader.t_max", "loader.draw")
        if experiment
        else Comparable((), ())
    )
    if not found.runs:
        blocks.append(
            Missing(
                "No finished runs over block sizes here.",
                "python train.py -m experiment=tmax_sweep",
            )
        )
        return Section("tmax", "Block size", tuple(blocks))
    groups = found.by(lambda run: (_packing(run), int(run.summary["t_max"])))
    loaders = in_order({loader for loader, _ in groups})
    sizes = sorted({t_max for _, t_max in groups})
    frames = found.runs[0].frames
    bounds = {t: -(-frames // t) * t - frames for t in sizes}

    def means(loader: str, t_max: int, key: str) -> float:
        return estimate([run.summary[key] for run in groups[loader, t_max]]).mean

    rows = []
    for loader, t_max in sorted(groups, key=lambda key: (loaders.index(key[0]), key[1])):
        runs = groups[loader, t_max]
        rows.append(
            (
                Cell(loader_name(loader)),
                number(t_max),
                number(len(runs)),
                mean_figure(runs, "blocks"),
                number((frames + bounds[t_max]) // t_max),
                number(means(loader, t_max, "padding")),
                number(bounds[t_max]),
                number(means(loader, t_max, "deleted")),
                number(means(loader, t_max, "epoch_seconds"), 1),
                mean_figure(runs, "peak_memory_mib"),
                interval(estimate(recalls(runs))),
            )
        )
    series = [
        Series(
            loader_name(loader),
            tuple(Point(t, means(loader, t, "padding")) for t in sizes if (loader, t) in groups),
            style(loader),
        )
        for loader in loaders
    ]
    bound = Series("at least", tuple(Point(t, b) for t, b in bounds.items()), "bound")
    title = "Padding against T_max, in runs"
    table = Table(
        "Runs by T_max",
        (
            *("loader", "T_max", "runs", "blocks", "fewest", "padded", "at least", "deleted"),
            *("seconds an epoch", "peak memory, MiB", "Recall@20, %"),
        ),
        tuple(rows),
        f"`{experiment.name}`: {setting(found.runs[0])}; videos longer than T_max are split. "
        "Fewest: blocks that all frames need; at least: what fills up the last of them. "
        f"{MEMORY_OF} {found.note}".strip(),
    )
    at = table.columns.index("padded")
    told = "; ".join(f"{r[0].text} at T_max {r[1].text} pads {r[at].text}" for r in rows)
    blocks.append(
        Chart(
            title,
            line_chart([*series, bound], "T_max", "padded frames an epoch", from_zero=True),
            f"Padded frames an epoch against T_max: {told}.",
            tuple((swatch(one.style), one.label) for one in [*series, bound]),
            table,
        )
    )
    return Section("tmax", "Block size", tuple(blocks))

"""Runs that differ in one key: start tables, what padding holds, temporal parts, T_max."""

import pandas as pd

from bload.draw import label_of
from experiments.report.charts import interval_chart, line_chart
from experiments.report.figures import (
    Block,
    Exhibit,
    cell,
    difference,
    estimate,
    missing,
    note,
    rows,
)
from experiments.report.packing import t_max_chart
from experiments.report.results import Compared, Results, compare, in_order

ABLATIONS = {
    "reset_ablation": ("train.starts", "Where states are cleared", "table ignored wrong"),
    "padding_ablation": ("train.padding", "What padding holds in training", "masked repeated"),
    "temporal": ("model.temporal", "Temporal parts", "dds gru attention scan none"),
}
"""Experiment -> the key that it varies, a title and the values; all are compared to the first."""


def ablations(results: Results) -> list[Block]:
    charts = (_ablation(results, experiment) for experiment in ABLATIONS)
    return [
        chart or missing(f"finished runs on {title.lower()}", experiment)
        for chart, (experiment, (_, title, _)) in zip(charts, ABLATIONS.items(), strict=True)
    ]


def by_value(found: Compared, experiment: str) -> dict[str, pd.Series]:
    """Value of the key -> Recall@20 in percent by seed, in the order of the ablation."""
    key, _, order = ABLATIONS[experiment]
    groups = {str(name): runs for name, runs in found.runs.groupby(key)}
    names = dict.fromkeys([*order.split(), *groups])
    return {name: groups[name].set_index("train.seed").recall for name in names if name in groups}


def _ablation(results: Results, experiment: str) -> Exhibit | None:
    key, title, order = ABLATIONS[experiment]
    found = compare(results, experiment, key)
    if found is None:
        return None
    groups, values, baseline = (
        found.runs.groupby(key),
        by_value(found, experiment),
        order.split()[0],
    )
    figures = {name: estimate(of) for name, of in values.items()}
    base = values.get(baseline, pd.Series(dtype=float))
    others = {name: of for name, of in values.items() if name != baseline}
    columns = {
        "seeds": {name: of.count() for name, of in values.items()},
        "Recall@20, %": figures,
        f"minus {baseline}, points": {name: difference(of, base) for name, of in others.items()},
        "the same by seed": {name: estimate(of - base) for name, of in others.items()},
        "must be remembered, %": groups.memory.apply(estimate),
        "frames per second": groups.frames_per_second.mean(),
    }
    shown = "; ".join(f"{name} {cell(figure, '1')}" for name, figure in figures.items())
    return Exhibit(
        title,
        rows(key, columns, "0 1 +1 +1 1", str),
        note("ablation", key, found),
        interval_chart(title, figures, "Recall@20 with constraint, %"),
        f"Recall@20 in percent by {key}, with 95 % intervals: {shown}.",
    )


def block_sizes(results: Results) -> list[Block]:
    """Padding against T_max, from lengths alone and from runs."""
    found = compare(results, "tmax_sweep", "loader.name", "loader.t_max", "loader.draw")
    if found is None:
        return [t_max_chart(), missing("finished runs over block sizes", "tmax_sweep")]
    packing = found.runs.loader.str.replace(r" (t_max|long)=\S+", "", regex=True)
    runs = in_order(found.runs.assign(loader=packing), "t_max")
    groups = runs.groupby(["loader", "t_max"], sort=False)
    mean = groups.mean(numeric_only=True).reset_index()
    fewest = -(-runs.total.iloc[0] // mean.t_max)
    least = fewest * mean.t_max - runs.total.iloc[0]
    columns = {
        **{"T_max": mean.t_max, "runs": dict(enumerate(groups.size())), "blocks": mean.blocks},
        **{"fewest": fewest, "padded": mean.padding, "at least": least, "deleted": mean.deleted},
        **{"seconds per epoch": mean.epoch_seconds, "peak memory, MiB": mean.peak_memory_mib},
        "Recall@20, %": dict(enumerate(groups.recall.apply(estimate))),
    }
    table = rows("loader", columns, "0 0 0 0 0 0 0 1 0 1", lambda row: label_of(mean.loader[row]))
    shown = [f"{row['loader']} at T_max {row['T_max']} pads {row['padded']}" for row in table]
    title = "Padding against T_max, in runs"
    points = mean.assign(x=mean.t_max, y=mean.padding)
    labels, bound = ("T_max", "padded frames per epoch"), least.set_axis(mean.t_max).sort_index()
    svg = line_chart(title, points, labels, zero=True, others={"at least": bound})
    text = f"Padded frames per epoch against T_max: {'; '.join(shown)}."
    return [t_max_chart(), Exhibit(title, table, note("block_sizes", found), svg, text)]

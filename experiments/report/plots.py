"""Plots and their tables: Recall@20 while training, ablations, block sizes."""

import numpy as np
import pandas as pd

from bload.draw import label_of
from experiments.report.charts import line_chart
from experiments.report.exhibits import Estimate, Exhibit, Part, estimate, missing, note, rows
from experiments.report.horizon import side
from experiments.report.results import (
    NAMES,
    Compared,
    Results,
    compare,
    equal_epochs,
    equal_work,
    in_order,
)

ABLATIONS = {
    "reset_ablation": ("train.starts", "Where states are cleared", "table ignored wrong"),
    "padding_ablation": ("train.padding", "What padding holds in training", "masked repeated"),
    "temporal": ("model.temporal", "Temporal parts", "dds gru attention scan none"),
}
"""Experiment -> the key that it varies, a title and the values; all are compared to the first."""


EPOCHS = ("epochs", "epoch")


def story(results: Results) -> list[Part]:
    """What each loader reaches with the same work, and in as many epochs."""
    work, epochs = equal_work(results), equal_epochs(results)
    slots = ("work", "thousand slots processed, padding included")
    return [
        _curve(results, work, "Recall@20 against work, at equal work", slots, with_table=True)
        or missing("evaluations on the way at equal work", "paper_table_equal_time"),
        _curve(results, epochs, "Recall@20 against epochs", EPOCHS, with_table=True)
        or missing("evaluations after several epochs", "paper_table"),
    ]


def curves(results: Results) -> list[Part]:
    """Loss, and Recall@20 by time and on what must be remembered, at equal epochs."""
    found = equal_epochs(results)
    seconds = None if found and found.counts_start else found
    time = ("seconds", "training seconds")
    charts = [
        _curve(results, found, "Loss against epochs", EPOCHS, "loss"),
        _curve(results, seconds, "Recall@20 against training time", time),
        _curve(results, found, "Recall@20 on what must be remembered", EPOCHS, "memory"),
    ]
    lacking = missing("losses and evaluations of several epochs", "paper_table")
    return [chart for chart in charts if chart] or [lacking]


def _curve(
    results: Results,
    found: Compared | None,
    title: str,
    along: tuple[str, str],
    key: str = "recall",
    *,
    with_table: bool = False,
) -> Exhibit | None:
    """Mean, lowest and highest over seeds after each epoch in which all seeds have the figure.

    None if no loader has it twice. `along` is the column of the horizontal axis and its label.
    """
    if found is None:
        return None
    lines = found.main[[*NAMES, "loader"]].merge(results.epochs, on=NAMES).dropna(subset=key)
    groups = lines.groupby(["loader", "epoch"], sort=False)
    points = groups[key].agg(y="mean", low="min", high="max", seeds="size")
    points = points.join(groups[["seconds", "processed", "loss", "memory"]].mean()).reset_index()
    points = points.assign(epochs=points.epoch + 1, work=points.processed / 1000)
    points = points[points.seeds == points.loader.map(found.main.loader.value_counts())]
    points["x"] = points[along[0]]
    if not points.loader.duplicated().any():
        return None
    levels = {}
    if key == "memory":
        means = found.main[["ideal observer with memory", "ideal observer without memory"]].mean()
        levels = {f"{of}: {level:.1f} %": level for of, level in means.dropna().items()}
    columns = {
        "epoch": points.epochs,
        "thousand slots": points.work,
        "loss": points.loss,
        "Recall@20, %": points.y,
        "lowest": points.low,
        "highest": points.high,
        "must be remembered, %": points.memory,
        "seeds": points.seeds,
        **({} if found.counts_start else {"training seconds": points.seconds}),
    }
    table = rows("loader", columns, "0 1 2 1 1 1 1", lambda row: label_of(points.loader[row]))
    labels = (along[1], "loss" if key == "loss" else "Recall@20, %")
    text = note("curve", found, along[0], key)
    return line_chart(title, points, labels, table if with_table else [], text, levels=levels)


def ablations(results: Results) -> list[Part]:
    return [
        _ablation(results, experiment) or missing(f"finished runs on {title.lower()}", experiment)
        for experiment, (_, title, _) in ABLATIONS.items()
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
    groups, values = found.runs.groupby(key), by_value(found, experiment)
    baseline = order.split()[0]
    base = values.get(baseline, pd.Series(dtype=float))
    others = {name: of for name, of in values.items() if name != baseline}
    columns = {
        "seeds": {name: of.count() for name, of in values.items()},
        "Recall@20, %": {name: estimate(of) for name, of in values.items()},
        f"minus {baseline}, points": {name: estimate(of, base) for name, of in others.items()},
        "the same by seed": {name: estimate(of - base) for name, of in others.items()},
        "must be remembered, %": groups.memory.apply(estimate),
        "frames per second": groups.frames_per_second.mean(),
    }
    table = rows(key, columns, "0 1 +1 +1 1", str)
    return Exhibit(title, table, note("ablation", key, found))


def block_sizes(results: Results) -> list[Part]:
    """Padding and Recall@20 against T_max, and what other sizes are apart from the middle one."""
    found = compare(results, "tmax_sweep", "loader.name", "loader.t_max", "loader.draw")
    if found is None:
        return [missing("finished runs over block sizes", "tmax_sweep")]
    packing = found.runs.loader.str.replace(r" (t_max|long)=\S+", "", regex=True)
    runs = in_order(found.runs.assign(loader=packing), "t_max")
    groups = runs.groupby(["loader", "t_max"], sort=False)
    mean = groups.mean(numeric_only=True)
    fewest = np.ceil(mean.total / mean.index.get_level_values("t_max"))
    recall = {key: of.set_index("train.seed").recall for key, of in groups}
    sizes = sorted(runs.t_max.unique())
    middle = sizes[len(sizes) // 2]
    less = {
        (loader, t_max): estimate((of - recall[loader, middle]).dropna())
        for (loader, t_max), of in recall.items()
        if t_max != middle and (loader, middle) in recall
    }
    columns = {
        "T_max": {key: key[1] for key in mean.index},
        "runs": groups.size(),
        "steps": mean.steps,
        "blocks": mean.blocks,
        "fewest": fewest,
        "padded": mean.padding,
        "at least": fewest * mean.index.get_level_values("t_max") - mean.total,
        "deleted": mean.deleted,
        "peak memory, MiB": mean.peak_memory_mib,
        "Recall@20, %": groups.recall.apply(estimate),
        f"less T_max {middle:.0f}, points": less,
        "so": {key: _apart(of) for key, of in less.items()},
    }
    table = rows("loader", columns, "0 0 0 0 0 0 0 0 0 1 +1", lambda key: label_of(key[0]))
    return [Exhibit("Padding and Recall@20 against T_max", table, note("block_sizes", found))]


def _apart(less: Estimate) -> str:
    """Whether sizes are told apart, and if not, within how many points they are equal."""
    if side(less) == "undecided":
        return f"equal within {max(-less.low, less.high):.1f}"
    return "-" if side(less) == "-" else "apart"

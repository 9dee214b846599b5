"""Plots and their tables: Recall@20 while training, ablations, block sizes, spread of lengths."""

import pandas as pd

from bload.draw import label_of
from experiments.report.charts import interval_chart, line_chart
from experiments.report.figures import Block, Exhibit, difference, estimate, missing, note, rows
from experiments.report.packing import t_max_chart
from experiments.report.results import (
    NAMES,
    Compared,
    Results,
    compare,
    equal_epochs,
    equal_work,
    in_order,
)
from experiments.runs import figure

ABLATIONS = {
    "reset_ablation": ("train.starts", "Where states are cleared", "table ignored wrong"),
    "padding_ablation": ("train.padding", "What padding holds in training", "masked repeated"),
    "temporal": ("model.temporal", "Temporal parts", "dds gru attention scan none"),
}
"""Experiment -> the key that it varies, a title and the values; all are compared to the first."""
LENGTHS = (
    *("longest", "t_max", "padding", "lower_bound_padding", "deleted", "processed", "blocks"),
    *("plan_seconds", "epoch_seconds"),
)
"""Figures of the rows of `length_variance`."""


def evaluations(results: Results, runs: pd.DataFrame) -> pd.DataFrame:
    """The epochs of these runs, in their order, with the name of the loader."""
    return runs[[*NAMES, "loader"]].merge(results.epochs, on=NAMES)


def story(results: Results) -> list[Block]:
    """The one plot that says most: what each loader reaches with the same work."""
    title = "Recall@20 against work, at equal work"
    label = "thousand slots processed, padding included"
    return [
        _chart(results, equal_work(results), title, "work", label)
        or missing("evaluations on the way at equal work", "paper_table_equal_time")
    ]


def curves(results: Results) -> list[Block]:
    """The same at equal epochs, and on what must be remembered."""
    found, name = equal_epochs(results), "Recall@20"
    charts = [
        _chart(results, found, f"{name} against epochs", "epochs", "epoch"),
        _chart(results, found, f"{name} against training time", "seconds", "training seconds"),
        _chart(results, found, f"{name} on what must be remembered", "epochs", "epoch", "memory"),
    ]
    lacking = missing("evaluations after several epochs", "paper_table")
    return [chart for chart in charts if chart] or [lacking]


def _chart(
    results: Results, found: Compared | None, title: str, x: str, label: str, key: str = "recall"
) -> Exhibit | None:
    """Mean, lowest and highest over seeds after each epoch that all seeds evaluated.

    None if no loader was evaluated twice.
    """
    if found is None:
        return None
    lines = evaluations(results, found.main).dropna(subset=key)
    groups = lines.groupby(["loader", "epoch"], sort=False)
    points = groups[["seconds", "processed"]].mean().reset_index()
    points = points.assign(epochs=points.epoch + 1, work=points.processed / 1000)
    points[["y", "low", "high", "seeds"]] = (
        groups[key].agg(["mean", "min", "max", "size"]).to_numpy()
    )
    points = points[points.seeds == points.loader.map(found.main.loader.value_counts())]
    points["x"] = points[x]
    if not points.loader.duplicated().any():
        return None
    others = {}
    for observer in ("remembering observer", "memoryless observer") if key == "memory" else ():
        level = found.main[observer].mean()
        if level > 0:
            ends = [points.x.min(), points.x.max()]
            others[f"{observer}: {level:.1f} %"] = pd.Series(level, index=ends)
    columns = {
        **{"epoch": points.epochs, "training seconds": points.seconds},
        **{"thousand slots": points.work, "mean, %": points.y, "lowest": points.low},
        **{"highest": points.high, "seeds": points.seeds},
    }
    table = rows("loader", columns, "0 1 1 1 1 1", lambda row: label_of(points.loader[row]))
    return line_chart(
        title, points, (label, "Recall@20, %"), table, note("curve", x), others=others
    )


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
    table = rows(key, columns, "0 1 +1 +1 1", str)
    label = "Recall@20 with constraint, %"
    return interval_chart(title, figures, label, table, note("ablation", key, found))


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
    chart = line_chart(
        "Padding against T_max, in runs",
        mean.assign(x=mean.t_max, y=mean.padding),
        ("T_max", "padded frames per epoch"),
        table,
        note("block_sizes", found),
        zero=True,
        others={"at least": least.set_axis(mean.t_max).sort_index()},
    )
    return [t_max_chart(), chart]


def lengths(results: Results) -> list[Block]:
    """Padding and time where lengths spread over orders of magnitude."""
    record = results.measured("length_variance")
    if record is None:
        return [missing("measurements on lengths of 1 to 1,000 and 10,000", "length_variance")]
    found = pd.DataFrame(record["rows"], columns=["shape", "loader", *LENGTHS])
    found = found.assign(**{key: found[key].map(figure) for key in LENGTHS})
    found = found.assign(**{key: found[key].fillna("").map(str) for key in ("shape", "loader")})
    columns = {
        **{"loader": found.loader.map(label_of), "T_max": found.t_max, "padded": found.padding},
        **{"fewest possible": found.lower_bound_padding, "deleted": found.deleted},
        **{"processed": found.processed, "blocks": found.blocks},
        **{"planning, s": found.plan_seconds, "epoch, s": found.epoch_seconds},
    }
    names = found["shape"] + " up to " + found.longest.map("{:,.0f}".format)
    table = rows("lengths", columns, "0 0 0 0 0 0 0 3 1", names.get)
    known = in_order(found[found.processed > 0], "longest")
    timed = known[known.epoch_seconds > 0]
    charts = [_shares(known), *([_times(timed)] if len(timed) else [])]
    return [*charts, Exhibit("Every measurement", table)]


def _shares(found: pd.DataFrame) -> Exhibit:
    """Padding as a share of the work against the longest length."""
    naive = found.t_max.where(found.loader == "naive")
    whole = naive.groupby([found["shape"], found.longest]).transform("max").fillna(0)
    split = found.loader.str.startswith("bload") & (found.t_max < whole)  # only in the table
    share = (100 * found.padding / found.processed)[~split]
    groups = share.groupby([found.loader, found.longest], sort=False)
    points = groups.agg(y="mean", low="min", high="max").reset_index(names=["loader", "x"])
    return line_chart(
        "Padding against the longest sequence",
        points,
        ("longest sequence, frames", "padding, % of the work"),
        [],
        note("shares"),
        log="x",
        zero=True,
    )


def _times(found: pd.DataFrame) -> Exhibit:
    return line_chart(
        "Time of an epoch against the slots that it processes",
        found.assign(x=found.processed, y=found.epoch_seconds).sort_values("x"),
        ("slots processed per epoch", "seconds per epoch"),
        [],
        note("walked"),
        log="xy",
        joined=False,
    )

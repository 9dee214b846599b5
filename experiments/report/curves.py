"""Recall@20 of each loader against epochs, training time and the work done."""

import pandas as pd

from bload.draw import label_of
from experiments.report.charts import line_chart
from experiments.report.figures import Block, Exhibit, missing, note, rows
from experiments.report.results import NAMES, Compared, Results, equal_epochs, equal_work


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
    last = points.drop_duplicates("loader", keep="last")
    shown = [f"{label_of(one.loader)} {one.y:.1f}" for one in last.itertuples()]
    columns = {
        **{"epoch": points.epochs, "training seconds": points.seconds},
        **{"thousand slots": points.work, "mean, %": points.y, "lowest": points.low},
        **{"highest": points.high, "seeds": points.seeds},
    }
    table = rows("loader", columns, "0 1 1 1 1 1", lambda row: label_of(points.loader[row]))
    text = f"{title}, mean over seeds in percent, at the end of training: "
    return Exhibit(
        title,
        table,
        note("curve", x),
        line_chart(title, points, (label, "Recall@20, %"), others=others),
        f"{text}{'; '.join([*shown, *others])}.",
    )

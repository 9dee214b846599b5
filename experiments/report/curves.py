"""Recall@20 of each loader against epochs, training time and the work done."""

from collections.abc import Sequence

from experiments.report.chart import Point, Series, line_chart, swatch
from experiments.report.collect import Collection, Run, is_figure, percent
from experiments.report.document import Block, Cell, Chart, Missing, Section, Table, number
from experiments.report.measured import MEMORY, WITH, equal_epochs, equal_work
from experiments.report.names import in_order, loader_name, style
from experiments.report.statistics import estimate


def curves_section(collection: Collection) -> Section:
    compared, work = equal_epochs(collection), equal_work(collection)
    groups = compared.by_loader if compared else {}
    at_epochs, at_work = (_curves(one.by_loader if one else {}, WITH) for one in (compared, work))
    blocks: list[Block] = []
    if _has_a_line(at_epochs):
        blocks += [
            _chart("Recall@20 against epochs", "epoch", at_epochs, "epochs"),
            _chart("Recall@20 against training time", "training seconds", at_epochs, "seconds"),
        ]
    if _has_a_line(at_work):
        label = "thousand slots processed, padding included"
        blocks.append(_chart("Recall@20 against work, at equal work", label, at_work, "work"))
    remembered = _curves(groups, MEMORY)
    if _has_a_line(remembered):
        observers = _observers([run for runs in groups.values() for run in runs])
        title = "Recall@20 on what must be remembered"
        blocks.append(_chart(title, "epoch", remembered, "epochs", observers))
    if not blocks:
        missing = Missing(
            "No finished runs here were evaluated after several epochs.",
            "python train.py -m experiment=paper_table",
        )
        blocks.append(missing)
    return Section("curves", "Recall@20 while training", tuple(blocks))


def _has_a_line(curves: dict[str, list[dict[str, float]]]) -> bool:
    return any(len(points) > 1 for points in curves.values())


def _curves(groups: dict[str, list[Run]], key: str) -> dict[str, list[dict[str, float]]]:
    """Loader -> its curve, without loaders whose seeds were never evaluated at one epoch."""
    curves = {loader: _curve(groups[loader], key) for loader in in_order(groups)}
    return {loader: points for loader, points in curves.items() if points}


def _curve(runs: Sequence[Run], key: str) -> list[dict[str, float]]:
    """Mean, lowest and highest over seeds after each epoch that all of them evaluated."""
    seen = [_evaluated(run, key) for run in runs]
    common = set.intersection(*(set(one) for one in seen)) if seen else set()
    points = []
    for epoch in sorted(common):
        seconds, slots, values = zip(*(one[epoch] for one in seen), strict=True)
        points.append(
            {
                "epochs": epoch + 1,
                "seconds": estimate(seconds).mean,
                "work": estimate(slots).mean / 1000,
                "mean": estimate(values).mean,
                "low": min(values),
                "high": max(values),
                "seeds": len(values),
            }
        )
    return points


def _evaluated(run: Run, key: str) -> dict[int, tuple[float, float, float]]:
    """Epoch -> (training seconds and slots processed until then, the figure in percent)."""
    found = {}
    # a resumed epoch may have been logged twice: the last line counts
    lines = {str(e.get("epoch")): (e.get("seconds"), e.get("processed")) for e in run.epochs}
    for line in run.evals:
        value, epoch = percent(line, key), line.get("epoch")
        if value is None or not isinstance(epoch, int):
            continue
        until = [lines.get(str(i), (None, None)) for i in range(epoch + 1)]
        if all(is_figure(figure) for line in until for figure in line):
            seconds, slots = map(sum, zip(*until, strict=True))
            found[epoch] = (seconds, slots, value)
    return found


def last_before(run: Run, key: str, seconds: float) -> tuple[int, float | None]:
    """Epochs trained and the figure at the last evaluation within so many training seconds."""
    found = _evaluated(run, key)
    within = [epoch for epoch in found if found[epoch][0] <= seconds * (1 + 1e-9)]
    if not within:
        return 0, None
    return max(within) + 1, found[max(within)][2]


def _observers(runs: Sequence[Run]) -> list[tuple[str, float]]:
    found = []
    for name in ("remembering", "memoryless"):
        values = [v for run in runs if (v := run.percent(f"{name}/recall@20_memory")) is not None]
        if values:
            found.append((f"{name} observer", estimate(values).mean))
    return found


def _chart(
    title: str,
    x_label: str,
    curves: dict[str, list[dict[str, float]]],
    x: str,
    observers: Sequence[tuple[str, float]] = (),
) -> Chart:
    series = [
        Series(
            loader_name(loader),
            tuple(Point(p[x], p["mean"], p["low"], p["high"]) for p in points),
            style(loader),
        )
        for loader, points in curves.items()
    ]
    places = [point[x] for points in curves.values() for point in points]
    lines = [
        Series(name, (Point(min(places), value), Point(max(places), value)), broken)
        for (name, value), broken in zip(observers, ("bound", "dotted"), strict=False)
    ]
    columns = (
        *("loader", "epoch", "training seconds", "thousand slots"),
        *("mean, %", "lowest", "highest", "seeds"),
    )
    rows = tuple(
        (
            Cell(loader_name(loader)),
            number(point["epochs"]),
            number(point["seconds"], 1),
            number(point["work"], 1),
            *(number(point[key], 1) for key in ("mean", "low", "high")),
            number(point["seeds"]),
        )
        for loader, points in curves.items()
        for point in points
    )
    ends = "; ".join(
        f"{loader_name(loader)} {points[-1]['mean']:.1f}" for loader, points in curves.items()
    )
    told = "".join(f"; {name} {value:.1f}" for name, value in observers)
    return Chart(
        title,
        line_chart([*series, *lines], x_label, "Recall@20, %"),
        f"{title}, mean over seeds in percent, at the end of training: {ends}{told}.",
        (
            *((swatch(one.style), one.label) for one in series),
            *((swatch(one.style), f"{one.label}: {one.points[0].y:.1f} %") for one in lines),
        ),
        Table(title, columns, rows),
        "With constraint; line: mean over seeds, band: lowest to highest seed.",
    )

"""The experiments that are rows of figures rather than runs: deadlock, lengths that vary widely."""

from collections.abc import Sequence
from typing import Any

from experiments.report.chart import Point, Series, line_chart, swatch
from experiments.report.collect import Collection, is_figure
from experiments.report.document import NOTHING, Block, Cell, Chart, Missing, Section, Table, number
from experiments.report.names import in_order, loader_name, style
from experiments.report.statistics import estimate

Row = dict[str, Any]


def deadlock_section(collection: Collection) -> Section:
    experiment = collection.find("deadlock")
    if experiment is None:
        block: Block = Missing(
            "The deadlock of plain DDP has not been shown here.",
            "python train.py experiment=deadlock",
        )
        return Section("deadlock", "Deadlock", (block,))
    rows = tuple(
        (
            Cell(_text(row.get("what"))),
            Cell(_text(row.get("loader"))),
            _ended(row),
            Cell(_steps(row.get("steps"))),
            number(_figure(row, "seconds"), 1),
            Cell(_text(row.get("says"))),
        )
        for row in experiment.rows
    )
    columns = ("what", "loader", "ended", "steps of the ranks", "seconds", "it says")
    table = Table("Two ranks on videos of uneven length", columns, rows, stacks=True)
    return Section("deadlock", "Deadlock", (table,))


def _ended(row: Row) -> Cell:
    """How it ended, marked where the row says how it was to end."""
    ended, expected = row.get("ended"), row.get("expected")
    if expected is None:
        return Cell(_text(ended))
    return Cell(f"{_text(ended)}, {'as' if ended == expected else 'not as'} expected")


def lengths_section(collection: Collection) -> Section:
    """Padding and time where lengths spread over orders of magnitude."""
    experiment = collection.find("length_variance")
    title = "Lengths that vary by orders of magnitude"
    rows = [row for row in experiment.rows if _is_complete(row)] if experiment else []
    if not rows:
        missing = Missing(
            "No measurements on lengths of 1 to 1,000 and 1 to 10,000 here.",
            "python train.py experiment=length_variance",
        )
        return Section("lengths", title, (missing,))
    blocks: list[Block] = [_shares(rows)]
    timed = [row for row in rows if _figure(row, "epoch_seconds")]
    if timed:
        blocks.append(_times(timed))
    blocks.append(_table(rows))
    return Section("lengths", title, tuple(blocks))


def _is_complete(row: Row) -> bool:
    needed = ("longest", "t_max", "frames", "padding", "deleted", "processed")
    return isinstance(row.get("loader"), str) and all(
        _figure(row, key) is not None for key in needed
    )


def _shares(rows: Sequence[Row]) -> Chart:
    """Padding as a share of the work against the longest length, one line a loader."""
    found: dict[str, dict[float, list[float]]] = {}
    whole = {_lengths(row): row["t_max"] for row in rows if row["loader"] == "naive"}
    for row in rows:
        if row["loader"].startswith("bload") and row["t_max"] < whole.get(_lengths(row), 0):
            continue  # sequences that are split stand in the table
        share = 100 * row["padding"] / row["processed"] if row["processed"] else 0.0
        found.setdefault(row["loader"], {}).setdefault(row["longest"], []).append(share)
    series = [
        Series(
            loader_name(loader),
            tuple(
                Point(longest, estimate(shares).mean, min(shares), max(shares))
                for longest, shares in sorted(found[loader].items())
            ),
            style(loader),
        )
        for loader in in_order(found)
    ]
    told = "; ".join(
        f"{one.label} " + ", ".join(f"{p.y:.1f} up to {p.x:,.0f}" for p in one.points)
        for one in series
    )
    return Chart(
        "Padding against the longest sequence",
        line_chart(
            series, "longest sequence, frames", "padding, % of the work", log_x=True, from_zero=True
        ),
        f"Padding in percent of the work by the longest sequence: {told}.",
        _legend(series),
        note="Mean and range over shapes of the distribution; T_max is the longest sequence, of "
        "sampling and mix pad the mean. What fills the last step counts as work, not as padding.",
    )


def _lengths(row: Row) -> tuple[Any, Any]:
    return row.get("shape"), row["longest"]


def _times(rows: Sequence[Row]) -> Chart:
    loaders = in_order({row["loader"] for row in rows})
    series = [
        Series(
            loader_name(loader),
            tuple(
                sorted(
                    (
                        Point(row["processed"], row["epoch_seconds"])
                        for row in rows
                        if row["loader"] == loader
                    ),
                    key=lambda point: point.x,
                )
            ),
            style(loader),
            line=False,
        )
        for loader in loaders
    ]
    rates = [row["processed"] / row["epoch_seconds"] for row in rows]
    return Chart(
        "Time of an epoch against the slots that it processes",
        line_chart(series, "slots processed an epoch", "seconds an epoch", log_x=True, log_y=True),
        "Seconds an epoch against slots processed, both on logarithmic scales: "
        f"{len(rows)} measurements of {min(rates):,.0f} to {max(rates):,.0f} slots a second.",
        _legend(series),
        note="Slots of a block are walked one after another, rows of a step at once: compare at "
        "one T_max. Shorter blocks, those of sampling, of mix pad and of sequences that are split, "
        "have more rows a step and fewer slots to walk.",
    )


def _legend(series: Sequence[Series]) -> tuple[tuple[str, str], ...]:
    return tuple((swatch(one.style), one.label) for one in series)


def _table(rows: Sequence[Row]) -> Table:
    whole = ("padding", "lower_bound_padding", "deleted", "processed", "blocks")
    return Table(
        "Every measurement",
        (
            *("lengths", "loader", "T_max", "padded", "fewest possible", "deleted", "processed"),
            *("blocks", "planning, s", "epoch, s"),
        ),
        tuple(
            (
                Cell(f"{_text(row.get('shape', ''))} up to {row['longest']:,}".strip()),
                Cell(loader_name(str(row["loader"]))),
                number(row["t_max"]),
                *(number(_figure(row, key)) for key in whole),
                number(_figure(row, "plan_seconds"), 3),
                number(_figure(row, "epoch_seconds"), 1),
            )
            for row in rows
        ),
    )


def _figure(row: Row, key: str) -> float | None:
    value = row.get(key)
    return value if is_figure(value) else None


def _text(value: Any) -> str:
    return NOTHING.text if value is None else str(value)


def _steps(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else _text(value)

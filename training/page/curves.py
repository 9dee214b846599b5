"""The charts of a run's page: losses and Recall over steps, costs by epoch, recall by relation."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bload.draw import INK, colour_of
from training.page.charts import BetweenPowers, across, chart
from training.page.exhibits import Exhibit, Rows
from training.page.record import Record, Row

QUIET, WAITING, DELETED = "#9aa3af", "#d9822b", "#a83260"
PARTS = {
    "loss_class": ("object class", "#0f62ad"),
    "loss_l1": ("boxes, L1", "#b4500b"),
    "loss_giou": ("boxes, overlap", "#0a7a52"),
    "loss_attention": ("attention", "#7a3fb8"),
    "loss_labels": ("spatial and contacting", "#5f6673"),
    "loss_dense": ("dense task", "#a83260"),
}
"""Part of the loss -> what it is of, and its colour; others have their own names."""
OBSERVERS = {
    "with": ("this model", "-"),
    "remembering": ("ideal observer with memory", "--"),
    "memoryless": ("ideal observer without memory", ":"),
}
"""Beginning of a figure's key -> whose recall it is, and how it is drawn as a line."""
TICKS = 8
"""Most epochs that are named over a chart by steps."""


def loss(run: Record) -> Exhibit:
    """The whole loss, of steps and of epochs."""
    found = _of_epochs(run, "loss") or _of_steps(run, "loss")

    def draw(axis: Axes) -> None:
        axis.plot(*_points(_of_steps(run, "loss")), color=QUIET, lw=1.2, label="of a step")
        colour = _colour(run)
        axis.plot(*_points(_of_epochs(run, "loss")), "o-", color=colour, label="mean of an epoch")
        axis.set_ylim(bottom=0)

    return _by_step(run, "Loss", f"Loss from {found[0][1]:.3g} to {found[-1][1]:.3g}", draw)


def parts(run: Record) -> Exhibit | None:
    """The parts of the loss, of steps and of epochs; None if none was logged."""
    lines = [*run.steps, *run.epochs]
    logged = dict.fromkeys(key for line in lines for key in line if key.startswith("loss_"))
    keys = [key for key in logged if any(line.get(key, 0) > 0 for line in lines)]
    if not keys:
        return None
    looks = [PARTS.get(key, (key.removeprefix("loss_"), None)) for key in keys]

    def draw(axis: Axes) -> None:
        axis.set_yscale("log")
        for key, (name, colour) in zip(keys, looks, strict=True):
            (line,) = axis.plot(*_points(_of_epochs(run, key)), "o-", ms=4, color=colour)
            axis.plot(*_points(_of_steps(run, key)), lw=1, alpha=0.6, color=line.get_color())
            line.set_label(name)

    note = (
        "Thin lines are steps, dots means of epochs. These are of the last layer; the whole loss "
        "adds up all layers."
    )
    text = f"Parts of the loss: {', '.join(name for name, _ in looks)}"
    return _by_step(run, "Parts of the loss", text, draw, note=note, height=4)


def recall(run: Record, rows: Rows) -> Exhibit | None:
    """Recall@20 by evaluation; that of one beside the observers, whose `rows` are its figures.

    None if there is one evaluation and no observer is known.
    """
    title = "Recall@20 with constraint, %"
    if len(run.evals) == 1:
        return _beside_observers(title, rows) if rows else None
    found = [(_at(run, line), 100 * line["with/recall@20"]) for line in run.evals]

    def draw(axis: Axes) -> None:
        for of, (name, broken) in OBSERVERS.items():
            level = 100 * run.reached.get(f"{of}/recall@20", 0)
            if of == "with":
                axis.plot(*_points(found), "o-", color=_colour(run), label=name)
            elif level:
                axis.axhline(level, ls=broken, color=INK, lw=1.6, label=f"{name} {level:.1f}")
        axis.set_ylim(0, 100)

    text = f"Recall@20 from {found[0][1]:.1f} to {found[-1][1]:.1f} %"
    return _by_step(run, title, text, draw, rows)


def _beside_observers(title: str, rows: Rows) -> Exhibit:
    """Bars of the model and the observers, a group for each row."""
    heading, *names = rows[0]

    def draw(axis: Axes) -> None:
        for place, (name, colour) in enumerate(zip(names, ("#0f62ad", INK, QUIET), strict=True)):
            found = {
                group + 0.27 * place: figure.mean
                for group, row in enumerate(rows)
                if (figure := row[name].figure)
            }
            across(axis, found, 0.25, colour, name)
        at = [group + 0.27 for group in range(len(rows))]
        axis.set_yticks(at, [fill(row[heading], 16) for row in rows])

    text = [f"{row[heading]}: {', '.join(f'{of} {row[of]}' for of in names)}" for row in rows]
    return _chart(title, "; ".join(text), draw, rows)


def seconds(run: Record) -> Exhibit:
    """Time of each epoch, and how much of it was waiting for data."""
    waited = [line["waiting_seconds"] for line in run.epochs]
    worked = [line["seconds"] - line["waiting_seconds"] for line in run.epochs]
    text = f"{sum(waited):,.1f} s of {sum(worked) + sum(waited):,.1f} s waiting for data"
    series = {"computing": (worked, _colour(run)), "waiting for data": (waited, WAITING)}
    return _by_epoch(run, "Seconds of an epoch", text, series)


def slots(run: Record) -> Exhibit | str:
    """Padding, filler and deleted frames of each epoch, or the sentence that there were none."""
    colours = {"padding": QUIET, "filler": WAITING, "deleted": DELETED}
    series = {
        name: ([line[name] for line in run.epochs], colour) for name, colour in colours.items()
    }
    series = {name: (values, colour) for name, (values, colour) in series.items() if any(values)}
    if not series:
        return "No slot was padded or empty, and no frame was deleted."
    text = ", ".join(
        f"{name} {values[-1]:,} in the last epoch" for name, (values, _) in series.items()
    )
    return _by_epoch(run, "Slots without a frame, and deleted frames", text, series)


def memory(run: Record) -> Exhibit:
    """Peak memory of each epoch, of the rank that took most."""
    series = {"": ([line["peak_memory_mib"] for line in run.epochs], _colour(run))}
    text = f"Up to {max(series[''][0]):,.0f} MiB"
    return _by_epoch(run, "Peak memory of a rank, MiB", text, series)


def _by_epoch(
    run: Record, title: str, text: str, series: Mapping[str, tuple[list[float], str]]
) -> Exhibit:
    """Bars for each epoch, one series on another."""

    def draw(axis: Axes) -> None:
        ends, below = [line["epoch"] for line in run.epochs], [0.0] * len(run.epochs)
        for name, (values, colour) in series.items():
            axis.bar(ends, values, 0.6, below, color=colour, label=name)
            below = [a + b for a, b in zip(below, values, strict=True)]
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter("{x:,.10g}")

    return _chart(title, text, draw)


def _by_step(
    run: Record,
    title: str,
    text: str,
    draw: Callable[[Axes], None],
    rows: Rows | None = None,
    note: str = "",
    height: float = 3.4,
) -> Exhibit:
    """A chart over the steps of the run, with its epochs on top."""

    def both(axis: Axes) -> None:
        draw(axis)
        axis.set_xlabel("step")
        axis.xaxis.set_major_formatter("{x:,.10g}")
        axis.yaxis.set_major_formatter("{x:,.10g}")
        if axis.get_yscale() == "log":
            axis.yaxis.set_minor_formatter(BetweenPowers())
        ends = [(_at(run, line), line["epoch"]) for line in run.epochs]
        last = max([_at(run, line) for line in (*run.steps, *run.epochs)], default=1)
        axis.set_xlim(0, 1.02 * last)
        ends = ends[:: -(-len(ends) // TICKS) or 1]
        if ends:
            top = axis.secondary_xaxis("top")
            top.set_xticks(*zip(*ends, strict=True))
            top.set_xlabel("end of epoch")

    return _chart(title, text, both, rows, note, height)


def _chart(
    title: str,
    text: str,
    draw: Callable[[Axes], None],
    rows: Rows | None = None,
    note: str = "",
    height: float = 3.4,
) -> Exhibit:
    """A chart with a legend if something in it has a label."""

    def drawn(axis: Axes) -> None:
        draw(axis)
        if axis.get_legend_handles_labels()[0]:
            look = {"ncols": 2, "borderaxespad": 0, "columnspacing": 1, "handlelength": 1.2}
            axis.figure.legend(loc="outside upper left", **look)

    return chart(title, height, drawn, text, rows or [], note)


def _colour(run: Record) -> str:
    return colour_of(run.config["loader"]["name"])


def _at(run: Record, line: Row) -> int:
    """The step of the whole run at which a line was written; epochs need not have as many."""
    of = {epoch["epoch"]: epoch["step"] for epoch in run.epochs}
    return sum(of.get(epoch, 0) for epoch in range(line["epoch"])) + line["step"]


def _of_steps(run: Record, key: str) -> list[tuple[float, float]]:
    return [(_at(run, line), line[key]) for line in run.steps if key in line]


def _of_epochs(run: Record, key: str) -> list[tuple[float, float]]:
    """At the middle of each epoch, of whose steps it is the mean."""
    return [(_at(run, line) - line["step"] / 2, line[key]) for line in run.epochs if key in line]


def _points(found: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in found], [y for _, y in found]

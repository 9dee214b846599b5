"""The sections of a run's page: figures of the run in words, tables and charts."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bload.draw import INK, colour_of
from bload.errors import InputError
from experiments.cli import check_overrides
from experiments.config import register
from experiments.figures import summarise
from experiments.printing import verdict
from experiments.report.charts import plain_svg
from experiments.report.figures import Cell, Exhibit, Part, cell, rows
from experiments.run_record import Record, Row

PICTURE = "prediction.png"
QUIET, WAITING = "#9aa3af", "#d9822b"
COUNTS = {"padded": "padding", "filler": "filler", "deleted": "deleted"}
OBSERVERS = {
    "with": "this model",
    "remembering": "observer that remembers all",
    "memoryless": "observer without memory",
}
CONSTRAINTS = ("with", "semi", "no")


def lead(run: Record) -> str:
    """What was trained, how far it came and what it reached."""
    config, ranks = run.config, run.config.get("launch", {}).get("nproc", 1)
    names = f"{config['model']['name']} on {config['dataset']['name']}"
    what = f"{names}, loader {config['loader']['name']}, seed {config['train']['seed']}"
    state = f"{len(run.epochs)} epoch{'s' * (len(run.epochs) != 1)}"
    if run.failed:
        state = f"failed after {state}: {run.failed}"
    elif not run.ended:
        state = f"not finished, {state} so far"
    said = f" {verdict(run.reached)}." if verdict(run.reached) else ""
    return f"{what}, {ranks} rank{'s' * (ranks > 1)}; {state}.{said}"


def reached(run: Record) -> list[Part]:
    """Recall of the last evaluation, and what observers reach."""
    if not run.reached:
        return ["The test split has not been evaluated yet."]
    columns = {
        f"Recall@{k}, %": {of: 100 * run.reached[f"{of}/recall@{k}"] for of in CONSTRAINTS}
        for k in (10, 20, 50, 100)
        if f"with/recall@{k}" in run.reached
    }
    table = rows("constraint", columns, "1 1 1 1", str)
    title = f"On the test split, after epoch {run.reached['epoch'] + 1}"
    if not verdict(run.reached):  # real data, whose observers are not known
        return [Exhibit(title, table)]
    parts = {"all relations": "", "those that must be remembered": "_memory"}
    columns = {
        name: {part: 100 * run.reached[f"{of}/recall@20{parts[part]}"] for part in parts}
        for of, name in OBSERVERS.items()
    }
    beside = rows("Recall@20 with constraint, %", columns, "1 1 1", str)
    return [Exhibit(title, table), Exhibit("Beside observers that see every frame", beside)]


def picture(run: Record) -> list[Part]:
    """What the model predicts on frames of a test video."""
    if not (run.path / PICTURE).exists():
        return ["There is no picture; the run's checkpoint and its data are needed to draw it."]
    data = b64encode((run.path / PICTURE).read_bytes()).decode()
    text = "Frames of a test video: the truth, the prediction, the best triplets"
    note = "Triplets are green where they find a true one, else red."
    return [Exhibit(text, [], note, f'<img alt="" src="data:image/png;base64,{data}"/>', text)]


def training(run: Record) -> list[Part]:
    """Loss, Recall, time and speed over epochs, as charts and as a table."""
    if not run.epochs:
        return ["No epoch has ended yet."]
    charts = [_loss(run), *([_recall(run)] if run.evals else []), _seconds(run), _speed(run)]
    columns: Row = {"loss": "loss", "seconds": "seconds", "waiting, s": "waiting_seconds"}
    columns |= {"frames/s": "frames_per_second", **COUNTS, "memory, MiB": "peak_memory_mib"}
    of = {line["epoch"]: line for line in run.epochs}
    table = {name: {epoch: of[epoch][key] for epoch in of} for name, key in columns.items()}
    table["Recall@20, %"] = {line["epoch"]: 100 * line["with/recall@20"] for line in run.evals}
    forms = "2 1 1 0 0 0 0 0 1"
    return [*charts, Exhibit("By epoch", rows("epoch", table, forms, lambda at: str(at + 1)))]


def cost(run: Record) -> list[Part]:
    """Padding, waiting, speed and memory of the run."""
    if not run.epochs:
        return []
    means = summarise(run.epochs)
    lines = [
        ("frames of an epoch", f"{means['frames']:,.0f} in {means['blocks']:,.0f} blocks"),
        ("padding", f"{means['padding']:,.0f}, {means['padding'] / means['processed']:.1%}"),
        ("filler", f"{means['filler']:,.0f} empty slots, to fill the last step"),
        ("deleted", f"{means['deleted']:,.0f} frames"),
        ("time of an epoch", f"{means['epoch_seconds']:,.1f} s, the median"),
        ("waiting for data", f"{means['waiting_seconds'] / means['epoch_seconds']:.1%} of that"),
        ("speed", f"{means['frames_per_second']:,.0f} frames/s"),
        ("training in all", f"{means['train_seconds']:,.0f} s"),
        ("peak memory", f"{means['peak_memory_mib']:,.0f} MiB per rank"),
    ]
    return [_pairs("Means of an epoch", lines)]


def config(run: Record) -> list[Part]:
    """Every key beside its default; those that differ first, and all."""
    usual, here = _defaults(run.config), _flat(run.config)
    of = {
        key: {"key": Cell(key), "run": cell(here[key]), "default": cell(usual.get(key))}
        for key in here
    }
    differ = [row for key, row in of.items() if usual and here[key] != usual.get(key)]
    says = "Every key has its default." if usual and not differ else ""
    parts: list[Part] = [says] if says else []
    return [
        *parts,
        Exhibit("Other than the defaults", differ),
        Exhibit("Every key", [*of.values()]),
    ]


def origin(run: Record) -> list[Part]:
    """Commit, machine and versions, and how to make the page anew."""
    again = f"This page and its picture: `python -m experiments.run_page {run.path}`."
    if not run.made_on:
        return ["Commit and machine were not recorded.", again]
    groups = {"commit": {"": run.made_on.get("git")}}
    groups |= {name: run.made_on.get(name, {}) for name in ("machine", "versions")}
    lines = [
        (name, ", ".join(f"{key} {value}".strip() for key, value in of.items() if value))
        for name, of in groups.items()
    ]
    return [_pairs("Where it was trained", lines), again]


SECTIONS: dict[str, tuple[str, Callable[[Record], list[Part]]]] = {
    "reached": ("What it reached", reached),
    "picture": ("A test video", picture),
    "training": ("While it trained", training),
    "cost": ("What it cost", cost),
    "config": ("Config", config),
    "origin": ("Commit and machine", origin),
}
"""Anchor -> title and what makes the section."""


def _pairs(title: str, lines: list[tuple[str, str]]) -> Exhibit:
    return Exhibit(
        title, [{"what": Cell(a), "value": Cell(b or "-")} for a, b in lines], kind="words"
    )


def _flat(groups: Row) -> dict[str, str]:
    """``group.key`` -> value as on a command line, by group and key."""
    return {
        f"{name}.{key}": value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, group in sorted(groups.items())
        for key, value in group.items()
    }


def _defaults(groups: Row) -> dict[str, str]:
    """The config of a command line that chooses the same groups and nothing else."""
    register()
    chosen = [f"{name}={groups[name]['name']}" for name in ("loader", "dataset", "model")]
    for more in ([], ["dataset.root=ROOT"]):
        try:
            return _flat(asdict(check_overrides("train", [*chosen, *more])))
        except InputError:  # a key without a default, or a loader of a script's own
            continue
    return {}


def _chart(title: str, alternative: str, draw: Callable[[Axes], None]) -> Exhibit:
    def drawn(axis: Axes) -> None:
        draw(axis)
        axis.set(xlabel="epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.yaxis.set_major_formatter("{x:,.10g}")
        if axis.get_legend_handles_labels()[0]:
            axis.figure.legend(loc="outside upper left", ncols=2, borderaxespad=0)

    return Exhibit(title, [], "", plain_svg(title, 3.4, drawn), alternative)


def _ends(lines: list[Row]) -> list[int]:
    return [line["epoch"] + 1 for line in lines]


def _colour(run: Record) -> str:
    return colour_of(run.config["loader"]["name"])


def _loss(run: Record) -> Exhibit:
    steps = max(line["steps"] for line in run.epochs)
    losses = [line["loss"] for line in run.epochs]

    def draw(axis: Axes) -> None:
        at = [line["epoch"] + line["step"] / steps for line in run.steps]
        axis.plot(at, [line["loss"] for line in run.steps], color=QUIET, lw=1.2, label="of a step")
        middles = [line["epoch"] + 0.5 for line in run.epochs]
        axis.plot(middles, losses, "o-", color=_colour(run), label="mean of an epoch")
        axis.set_ylim(bottom=0)

    return _chart("Loss", f"Loss from {losses[0]:.3g} to {losses[-1]:.3g}", draw)


def _recall(run: Record) -> Exhibit:
    found = [100 * line["with/recall@20"] for line in run.evals]

    def draw(axis: Axes) -> None:
        axis.plot(_ends(run.evals), found, "o-", color=_colour(run), label="this model")
        observers = {
            "remembering": ("observer with memory", "--"),
            "memoryless": ("without memory", ":"),
        }
        for of, (name, broken) in observers.items():
            if level := 100 * run.reached.get(f"{of}/recall@20", 0):
                label = f"{name}: {level:.1f}"
                axis.axhline(level, ls=broken, color=INK, lw=1.6, label=label)
        axis.set(xlim=(0.5, len(run.epochs) + 0.5), ylim=(0, 100))

    return _chart("Recall@20 with constraint, %", f"Recall@20 {found[-1]:.1f} %", draw)


def _seconds(run: Record) -> Exhibit:
    waited = [line["waiting_seconds"] for line in run.epochs]
    worked = [line["seconds"] - line["waiting_seconds"] for line in run.epochs]

    def draw(axis: Axes) -> None:
        axis.bar(_ends(run.epochs), worked, 0.6, color=_colour(run), label="computing")
        label = "waiting for data"
        axis.bar(_ends(run.epochs), waited, 0.6, worked, color=WAITING, label=label)

    text = f"{sum(waited):,.1f} s of {sum(worked) + sum(waited):,.1f} s waiting for data"
    return _chart("Seconds of an epoch", text, draw)


def _speed(run: Record) -> Exhibit:
    speeds = [line["frames_per_second"] for line in run.epochs]

    def draw(axis: Axes) -> None:
        axis.plot(_ends(run.epochs), speeds, "o-", color=_colour(run))
        axis.set_ylim(bottom=0)

    text = f"{min(speeds):,.0f} to {max(speeds):,.0f} frames per second"
    return _chart("Frames per second", text, draw)

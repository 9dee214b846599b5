"""Where the figures are from: experiments, machines, commands, every run, and what is not there."""

from typing import Any

from bload.report.collect import Collection, Experiment
from bload.report.document import (
    NOTHING,
    Block,
    Cell,
    Commands,
    Section,
    Table,
    Text,
    number,
    words,
)
from bload.report.measured import EXPERIMENTS, MEMORY, NO, WITH
from bload.report.names import loader_name


def runs_section(collection: Collection) -> Section:
    """Every finished run, every failed one with its sentence, and the unfinished."""
    blocks: list[Block] = []
    finished = [
        (
            Cell(experiment.name),
            Cell(run.name),
            Cell(loader_name(run.loader)),
            *(number(run.summary["t_max"] if k == "t_max" else run.seed) for k in ("t_max", "")),
            Cell(" ".join(_varied(experiment, run.overrides))) if run.overrides else NOTHING,
            number(run.summary["epochs"]),
            number(run.summary["padding"]),
            number(run.summary["deleted"]),
            number(run.summary["epoch_seconds"], 1),
            *(_percent(run.percent(key)) for key in (WITH, NO, MEMORY)),
        )
        for experiment in collection.experiments
        for run in experiment.finished
    ]
    if finished:
        columns = (
            *("experiment", "run", "loader", "T_max", "seed", "overrides", "epochs", "padded"),
            *("deleted", "seconds an epoch", "Recall@20 with, %", "no constraint, %"),
            "must be remembered, %",
        )
        blocks.append(Table(f"Finished runs: {len(finished)}", columns, tuple(finished)))
    else:
        blocks.append(Text("There is no finished run here."))
    for state, title, says in (
        ("failed", "Failed", "what it said"),
        ("unfinished", "Not finished", "how far it came"),
    ):
        rows = tuple(
            words(experiment.name, run.name, " ".join(run.overrides) or "-", run.says)
            for experiment in collection.experiments
            for run in experiment.runs
            if run.state == state
        )
        if rows:
            columns = ("experiment", "run", "overrides", says)
            blocks.append(Table(f"{title}: {len(rows)}", columns, rows))
    if collection.strange:
        rows = tuple(words(path, says) for path, says in collection.strange)
        blocks.append(Table("Not in this report", ("folder or file", "why"), rows))
    return Section("runs", "Every run", tuple(blocks))


def _varied(experiment: Experiment, overrides: tuple[str, ...]) -> list[str]:
    """The overrides that are not those of every job."""
    jobs = [set(run.overrides) for run in experiment.runs if run.overrides]
    common = set.intersection(*jobs) if len(jobs) > 1 else set()
    return [override for override in overrides if override not in common]


def _percent(value: float | None) -> Cell:
    return number(value, 1)


def origin_section(collection: Collection) -> Section:
    """Experiments with their machines, versions and commands."""
    blocks: list[Block] = []
    recorded = [experiment for experiment in collection.experiments if experiment.record]
    if recorded:
        columns = (
            *("experiment", "finished", "failed", "not finished", "machine", "versions"),
            *("commit", "threads", "began", "ended"),
        )
        blocks.append(Table("Where and when", columns, tuple(_origin(one) for one in recorded)))
    commands = [str(one.record["command"]) for one in recorded if one.record.get("command")]
    if commands:
        blocks += [Text("The commands that made what stands here:"), Commands(tuple(commands))]
    lacking = [name for name in EXPERIMENTS if collection.find(name) is None]
    if lacking:
        text = "Experiments without results here; `_quick` behind a name takes minutes:"
        blocks += [Text(text), Commands(tuple(_command(name) for name in lacking))]
    quick = [
        name
        for name in EXPERIMENTS
        if (found := collection.find(name)) is not None and found.name != name
    ]
    if quick:
        blocks.append(Text(f"Quick forms stand in for the full ones of: {', '.join(quick)}."))
    blocks.append(Text(f"This page: `python -m bload report {collection.folder}`."))
    return Section("origin", "Machines, versions, commands", tuple(blocks))


def _command(name: str) -> str:
    many = "" if name in ("deadlock", "length_variance") else " -m"
    return f"python train.py{many} experiment={name}"


def _origin(experiment: Experiment) -> tuple[Cell, ...]:
    record = experiment.record
    states = [run.state for run in experiment.runs]
    commit = record.get("git")
    return (
        Cell(experiment.name),
        *(
            number(states.count(state) if states else None)
            for state in ("finished", "failed", "unfinished")
        ),
        Cell(_machine(record.get("machine"))),
        Cell(_pairs(record.get("versions"))),
        Cell(str(commit)[:12] if commit else NOTHING.text),
        Cell(str(record.get("threads", NOTHING.text))),
        Cell(_time(record.get("started"))),
        Cell(_time(record.get("ended"))),
    )


def _machine(machine: Any) -> str:
    if not isinstance(machine, dict):
        return NOTHING.text
    told = [str(machine.get("cpu") or "CPU unknown"), f"{machine.get('cores', '?')} cores"]
    told.append(str(machine.get("gpu") or "no GPU"))
    if isinstance(machine.get("memory_gib"), int | float):
        told.append(f"{machine['memory_gib']:.0f} GiB")
    if machine.get("system"):
        told.append(str(machine["system"]))
    return ", ".join(told)


def _pairs(values: Any) -> str:
    if not isinstance(values, dict):
        return NOTHING.text
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _time(value: Any) -> str:
    return str(value)[:16].replace("T", " ") if value else NOTHING.text

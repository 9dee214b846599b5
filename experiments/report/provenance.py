"""Where the figures are from: experiments, machines, commands, every run, and what is not there."""

import shlex
from typing import Any

from experiments.report.collect import Collection, Experiment, is_figure
from experiments.report.document import (
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
from experiments.report.measured import EXPERIMENTS, MEMORY, NO, WITH
from experiments.report.names import loader_name


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
    """Every command with its machine, versions, commit and times, and what there is none of."""
    blocks: list[Block] = []
    with_runs = [experiment for experiment in collection.experiments if experiment.runs]
    if with_runs:
        columns = ("experiment", "finished", "failed", "not finished", "by no command listed here")
        rows = tuple(_counts(experiment) for experiment in with_runs)
        blocks.append(Table("Runs by experiment", columns, rows))
    blocks += _commands(collection)
    mixed = [said for experiment in with_runs if (said := _mixed(experiment))]
    if mixed:
        blocks.append(Text(f"Not all was measured alike: {'; '.join(mixed)}."))
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
    folder = shlex.quote(str(collection.folder))
    blocks.append(Text(f"This page: `python -m experiments.report {folder}`."))
    return Section("origin", "Machines, versions, commands", tuple(blocks))


def _command(name: str) -> str:
    many = "" if name in ("deadlock", "length_variance") else " -m"
    return f"python train.py{many} experiment={name}"


def _counts(experiment: Experiment) -> tuple[Cell, ...]:
    """Runs by state, and the finished ones that no command trained; unknown of old records."""
    states = [run.state for run in experiment.runs]
    made: int | None = None
    if all(sweep.runs is not None for sweep in experiment.sweeps):
        trained = {name for sweep in experiment.sweeps for name in sweep.runs or ()}
        made = sum(run.name not in trained for run in experiment.finished)
    return (
        Cell(experiment.name),
        *(number(states.count(state)) for state in ("finished", "failed", "unfinished")),
        number(made),
    )


def _commands(collection: Collection) -> list[Block]:
    """All commands in one table; a machine or versions that all share stand above it."""
    sweeps = [(one.name, sweep) for one in collection.experiments for sweep in one.sweeps]
    if not sweeps:
        return []
    blocks: list[Block] = []
    varied: list[tuple[str, list[str]]] = []
    for name, texts in (
        ("machine", [_machine(sweep.machine) for _, sweep in sweeps]),
        ("versions", [_pairs(sweep.versions) for _, sweep in sweeps]),
    ):
        if len({*texts}) == 1:
            blocks.append(Text(f"The {name} of all that follows: {texts[0]}."))
        else:
            varied.append((name, texts))
    rows = tuple(
        (
            Cell(name),
            Cell(f"`{sweep.command}`") if sweep.command else NOTHING,
            Cell(_time(sweep.started)),
            Cell(_time(sweep.ended)),
            number(None if sweep.runs is None else len(sweep.runs)),
            number(sweep.threads),
            Cell(_short(sweep.commit)),
            *(Cell(texts[line]) for _, texts in varied),
        )
        for line, (name, sweep) in enumerate(sweeps)
    )
    columns = (
        *("experiment", "command", "began", "ended", "runs", "threads", "commit"),
        *(name for name, _ in varied),
    )
    note = "Times are UTC. Runs are those that the command trained, not those that it found."
    if any(
        sweep.runs is None and one.runs for one in collection.experiments for sweep in one.sweeps
    ):
        note += (
            " Where `-` stands for them, only the last command was recorded, and others may have "
            "made some of the runs."
        )
    return [*blocks, Table("Commands", columns, rows, note, stacks=True)]


def _short(commit: str | None) -> str:
    """``0123456789ab``, with ``-dirty`` where files had changed since."""
    if not commit:
        return NOTHING.text
    return commit[:12] + ("-dirty" if commit.endswith("-dirty") else "")


def _mixed(experiment: Experiment) -> str:
    """Whether its finished runs were made on several machines or with several thread counts."""
    finished = {run.name for run in experiment.finished}
    sweeps = [
        sweep
        for sweep in experiment.sweeps
        if finished and (sweep.runs is None or finished & {*sweep.runs})
    ]
    machines = {_machine(sweep.machine) for sweep in sweeps if sweep.machine}
    threads = sorted({sweep.threads for sweep in sweeps if sweep.threads is not None})
    told = []
    if len(machines) > 1:
        told.append(f"from {len(machines)} machines")
    if len(threads) > 1:
        told.append(f"from runs with {' and '.join(map(str, threads))} threads")
    return f"times of {experiment.name} come {' and '.join(told)}" if told else ""


def _machine(machine: dict[str, Any] | None) -> str:
    if machine is None:
        return NOTHING.text
    told = [str(machine.get("cpu") or "CPU unknown"), f"{machine.get('cores', '?')} cores"]
    told.append(str(machine.get("gpu") or "no GPU"))
    if is_figure(machine.get("memory_gib")):
        told.append(f"{machine['memory_gib']:.0f} GiB")
    if machine.get("system"):
        told.append(str(machine["system"]))
    return ", ".join(told)


def _pairs(values: dict[str, Any] | None) -> str:
    if values is None:
        return NOTHING.text
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _time(value: str | None) -> str:
    return value[:16].replace("T", " ") if value else NOTHING.text

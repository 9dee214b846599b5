"""Where the figures are from: every run, machines, versions, commands, and what is not there."""

import re
import shlex
from typing import Any

import pandas as pd

from bload.draw import label_of
from experiments.report.figures import Block, Exhibit, command_of, note, rows
from experiments.report.results import EXPERIMENTS, Results
from experiments.runs import figure

STATES = {"finished": "finished", "failed": "failed", "unfinished": "not finished"}


def every_run(results: Results) -> list[Block]:
    """Every finished run, every failed one with its sentence, the unfinished and the damaged."""
    runs = results.runs.assign(overrides=results.runs.overrides.fillna("").astype(object))
    runs["varied"] = runs.groupby("experiment").overrides.transform(_varied)
    some = runs[runs.state == "finished"]
    columns = {
        **{"run": some.run, "loader": some.loader.map(label_of), "T_max": some.t_max},
        **{"seed": some["train.seed"], "overrides": some.varied, "epochs": some.epochs},
        **{"padded": some.padding, "deleted": some.deleted},
        **{"seconds an epoch": some.epoch_seconds, "Recall@20 with, %": some.recall},
        **{"no constraint, %": some.no, "must be remembered, %": some.memory},
    }
    table = rows("experiment", columns, "0 0 0 0 0 0 0 0 1 1 1 1", some.experiment.get)
    blocks: list[Block] = ["There is no finished run here."]
    if table:
        blocks = [Exhibit(f"Finished runs: {len(table)}", table)]
    for state, title, says in (
        ("failed", "Failed", "what it said"),
        ("unfinished", "Not finished", "how far it came"),
    ):
        some = runs[runs.state == state]
        columns = {"run": some.run, "overrides": some.overrides, says: some.says}
        table = rows("experiment", columns, name=some.experiment.get)
        if table:
            blocks.append(Exhibit(f"{title}: {len(table)}", table, kind="words"))
    if results.damaged:
        table = rows("folder or file", {"why": results.damaged}, name=str)
        blocks.append(Exhibit("Not in this report", table, kind="words"))
    return blocks


def _varied(overrides: pd.Series) -> pd.Series:
    """The overrides of the jobs of an experiment that not all of them have."""
    jobs = [set(text.split()) for text in overrides if text]
    common = set.intersection(*jobs) if len(jobs) > 1 else set()
    return overrides.map(lambda text: " ".join(w for w in text.split() if w not in common))


def origin(results: Results) -> list[Block]:
    """Every command with its machine, versions, commit and times, and what there is none of."""
    commands = _commands(results)
    blocks = [*_counts(results, commands), *_command_table(results, commands)]
    mixed = [_mixed(of, results.finished) for _, of in commands.groupby("experiment", sort=False)]
    if any(mixed):
        blocks.append(f"Not all was measured alike: {'; '.join(filter(None, mixed))}.")
    there = {*results.finished.experiment, *(one["name"] for one in results.records if one["rows"])}
    lacking = [name for name in EXPERIMENTS if not {name, f"{name}_quick"} & there]
    quick = [name for name in EXPERIMENTS if name not in {*lacking, *there}]
    if lacking:
        listed = ", ".join(f"`{command_of(name)}`" for name in lacking)
        blocks.append(f"Experiments without results here, each with a quick form: {listed}.")
    if quick:
        blocks.append(f"Quick forms stand in for the full ones of: {', '.join(quick)}.")
    folder = shlex.quote(str(results.folder))
    return [*blocks, f"This page: `python -m experiments.report {folder}`."]


def _commands(results: Results) -> pd.DataFrame:
    """A row per command; `trained` are names of runs, None if unknown."""
    found = [
        {
            "experiment": record["name"],
            "command": f"`{one['command']}`" if one.get("command") else "-",
            "began": str(one.get("started") or "-")[:16].replace("T", " "),
            "ended": str(one.get("ended") or "-")[:16].replace("T", " "),
            "trained": one["runs"] if isinstance(one.get("runs"), list) else None,
            "threads": figure(one.get("threads")),
            "commit": re.sub(r"^(\w{12})\w*", r"\1", str(one.get("git") or "-")),
            "machine": _pairs(one.get("machine")),
            "versions": _pairs(one.get("versions")),
        }
        for record in results.records
        for one in record["sweeps"]
    ]
    columns = ["experiment", "command", "began", "ended", "trained", "threads", "commit"]
    return pd.DataFrame(found, columns=[*columns, "machine", "versions"], dtype=object)


def _pairs(values: Any) -> str:
    known = values.items() if isinstance(values, dict) else []
    return ", ".join(f"{key} {value}" for key, value in known if value is not None) or "-"


def _counts(results: Results, commands: pd.DataFrame) -> list[Block]:
    """Runs by state, and the finished ones that no command trained."""
    states = results.runs.groupby("experiment", sort=False).state
    alone: dict[str, float] = {}
    for name, of in results.finished.groupby("experiment"):
        trained = commands.trained[commands.experiment == name]
        if trained.notna().all():
            alone[name] = len({*of.run}.difference(*trained))
    columns = {
        title: states.apply(lambda of, state=state: sum(of == state))
        for state, title in STATES.items()
    }
    columns["by no command listed here"] = alone
    table = rows("experiment", columns, name=str)
    return [Exhibit("Runs by experiment", table)] if table else []


def _command_table(results: Results, commands: pd.DataFrame) -> list[Block]:
    """All commands; a machine or versions that all share stand above them."""
    shared = [name for name in ("machine", "versions") if commands[name].nunique() == 1]
    blocks: list[Block] = [
        f"The {name} of all that follows: {commands[name].iloc[0]}." for name in shared
    ]
    of_runs = commands.experiment.isin(results.runs.experiment)
    text = note("commands", bool((commands.trained.isna() & of_runs).any()))
    frame = commands.drop(columns=["experiment", *shared]).rename(columns={"trained": "runs"})
    columns = dict(frame.assign(runs=frame.runs.map(len, na_action="ignore")))
    table = rows("experiment", columns, name=commands.experiment.get)
    return [*blocks, Exhibit("Commands", table, text, kind="words")] if table else []


def _mixed(commands: pd.DataFrame, finished: pd.DataFrame) -> str:
    """The machines and thread counts of the finished runs of an experiment, if several."""
    name = commands.experiment.iloc[0]
    runs = {*finished.run[finished.experiment == name]}
    of = commands[[bool(runs if made is None else runs & {*made}) for made in commands.trained]]
    machines = of.machine[of.machine != "-"].nunique()
    threads = [f"{count:.0f}" for count in sorted(of.threads.dropna().unique())]
    told = [f"from {machines} machines"] * (machines > 1)
    told += [f"from runs with {' and '.join(threads)} threads"] * (len(threads) > 1)
    return f"times of {name} come {' and '.join(told)}" if told else ""

"""Where the figures are from: every run, machines, versions, commands, and what is not there."""

import re
import shlex
from typing import Any

import pandas as pd

from bload.draw import label_of
from experiments.report.figures import Block, Exhibit, command_of, note, rows
from experiments.report.results import EXPERIMENTS, Results
from experiments.runs import figure


def every_run(results: Results) -> list[Block]:
    """Every finished run, and all others with what became of them."""
    done, rest = results.finished, results.runs[results.runs.state != "finished"]
    columns = {
        **{"run": done.run, "loader": done.loader.map(label_of), "T_max": done.t_max},
        **{"seed": done["train.seed"], "overrides": done.overrides, "epochs": done.epochs},
        **{"padded": done.padding, "deleted": done.deleted},
        **{"seconds an epoch": done.epoch_seconds, "Recall@20 with, %": done.recall},
        **{"no constraint, %": done.no, "must be remembered, %": done.memory},
    }
    table = rows("experiment", columns, "0 0 0 0 0 0 0 0 1 1 1 1", done.experiment.get)
    columns = {"run or file": rest.run, "state": rest.state, "overrides": rest.overrides}
    others = rows("experiment", {**columns, "it says": rest.says}, name=rest.experiment.get)
    return [
        Exhibit(f"Finished runs: {len(table)}", table)
        if table
        else "There is no finished run here.",
        *([Exhibit(f"Others: {len(others)}", others, kind="words")] if others else []),
    ]


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
    if not len(results.runs):
        return []
    alone = {}
    for name, of in results.finished.groupby("experiment"):
        trained = commands.trained[commands.experiment == name]
        if trained.notna().all():
            alone[name] = len({*of.run}.difference(*trained))
    states = pd.crosstab(results.runs.experiment, results.runs.state)
    columns = {**states, "finished by no command listed here": alone}
    return [Exhibit("Runs by experiment", rows("experiment", columns, name=str))]


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

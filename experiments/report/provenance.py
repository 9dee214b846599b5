"""Origin of the figures: every run, machines, versions and commands."""

import shlex
from urllib.parse import quote

import pandas as pd

from bload.draw import label_of
from experiments.report.exhibits import Exhibit, Part, Rows, note, rows
from experiments.report.results import Results


def every_run(results: Results) -> list[Part]:
    """Every finished run, and all others with what became of them."""
    done, rest = results.finished, results.runs[results.runs.state != "finished"]
    several = ["experiment"] * (results.runs.experiment.nunique() > 1)
    columns = {
        **done[several],
        **{"loader": done.loader.map(label_of), "seed": done["train.seed"]},
        **{"padded": done.padding, "deleted": done.deleted},
        **{"seconds per epoch": done.epoch_seconds, "Recall@20, %": done.recall},
        **{"no constraint, %": done.no, "must be remembered, %": done.memory},
        **{"T_max": done.t_max, "epochs": done.epochs},
        **({"overrides": done.overrides} if done.overrides.notna().any() else {}),
    }
    forms = "0 " * len(several) + "0 0 0 0 1 1 1 1"
    table = _linked(rows("run", columns, forms, done.run.get), done)
    columns = {**rest[several], "state": rest.state}
    columns |= {"overrides": rest.overrides, "it says": rest.says}
    others = _linked(rows("run", columns, name=rest.run.get), rest)
    blocks: list[Part] = ["There is no finished run here."]
    if table:
        blocks = [Exhibit(f"Finished runs: {len(table)}", table)]
    if others:
        blocks.append(Exhibit(f"Others: {len(others)}", others, kind="words"))
    return blocks


def _linked(table: Rows, runs: pd.DataFrame) -> Rows:
    """The rows of runs, those led to their pages that have one."""
    for row, page in zip(table, runs.page, strict=True):
        row["run"].link = quote(page) if page else ""
    return table


def origin(results: Results) -> list[Part]:
    """Every command with its machine, commit and times, and the versions."""
    blocks: list[Part] = []
    commands = [
        {"experiment": record["name"], "machine": {}, "versions": {}, **command}
        for record in results.records
        for command in record["sweeps"] or [record]
    ]
    if commands:
        keys = ("experiment", "command", "started", "ended", "runs", "threads", "git")
        found = pd.DataFrame(commands).reindex(columns=[*keys, "machine", "versions"])
        times = found[["started", "ended"]].map(lambda at: at[:16].replace("T", " "), "ignore")
        columns = {
            "command": found.command.map("`{}`".format, "ignore"),
            "began": times.started,
            "ended": times.ended,
            "runs": found.runs.map(len, "ignore"),
            "threads": found.threads,
            "commit": found.git.str[:12],
            "machine": found.machine.map(pairs),
        }
        table = rows("experiment", columns, name=found.experiment.get)
        blocks.append(Exhibit("Commands", table, note("commands"), kind="words"))
        blocks.append(f"Versions: {'; '.join(found.versions.map(pairs).unique())}.")
    folder = shlex.quote(str(results.folder))
    return [*blocks, f"This page: `python -m experiments.report {folder}`."]


def pairs(values: dict) -> str:
    """What `surroundings` found of a machine, or versions, in words."""
    forms = {"memory_gib": "memory {} GiB"}
    said = {key: forms.get(key, f"{key} {{}}").format(of) for key, of in values.items()}
    return ", ".join(said[key] for key, of in values.items() if of is not None)

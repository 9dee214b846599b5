"""Sections of a run's page: its results and costs in words, tables and charts."""

import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf.errors import OmegaConfBaseException

from bload.packing.packers import PACKERS
from datasets.build import DATASETS
from datasets.machine import plain_file
from training.config import CONFIGS, compose_job
from training.figures import summarise
from training.printing import CONSTRAINTS_IN_WORDS, from_memoryless
from training.report import charts
from training.report.charts import Chart
from training.report.record import RELATIONS, Record

PICTURES = {"prediction.png": "image/png", "prediction.webp": "image/webp"}
"""Files of the still and the moving picture."""
HARDLY = 0.03
"""Recall@20 with constraint below which a relation is hardly learned."""


@dataclass(frozen=True)
class Table:
    """Rows of texts and figures by heading; the first column names the row."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    note: str = ""


Part = str | Chart | Table


def lead(run: Record) -> str:
    """Describe a run: model, data, loader, progress and recall."""
    config, ranks = run.config, run.config["ranks"]
    names = f"{config['model']['name']} on {config['dataset']['name']}"
    what = f"{names}, loader {config['loader']['name']}, seed {config['train']['seed']}"
    state = f"{len(run.epochs)} epoch{'s' * (len(run.epochs) != 1)}"
    if not run.summary:
        last = run.steps[-1] if run.steps else {"epoch": 1, "step": 0}
        state = f"not finished, epoch {last['epoch']}, step {last['step']}"
    result = ""
    if run.summary:
        result = f"Recall@20 with constraint is {100 * run.summary['with/recall@20']:.1f} %"
        if beside := from_memoryless(run.summary):
            result += f", {beside}"
        result += "."
    return f"{what}, {ranks} rank{'s' * (ranks > 1)}; {state}. {result}"


def reached(run: Record) -> list[Part]:
    """Show loss and Recall of the last weights and on the way, beside those of observers."""
    parts: list[Part] = [charts.loss(run)] if run.steps or run.epochs else []
    if len(run.evals) > 1:
        parts.append(charts.recall_by_step(run))
    if not (last := run.summary):
        return [*parts, "The run has not ended, so its last weights are not evaluated yet."]
    rows = [
        {"constraint": words}
        | {f"Recall@{k}, %": f"{100 * last[f'{of}/recall@{k}']:.1f}" for k in (10, 20, 50)}
        for of, (words, _) in CONSTRAINTS_IN_WORDS.items()
    ]
    title = f"The last weights on split {last['split']}, {last['eval_frames']:,.0f} frames"
    return [charts.recall(last), *parts, Table(title, rows)]


def relations(run: Record) -> list[Part]:
    """Show Recall@20 of every relation at the end, and count the hardly learned."""
    if not run.summary or not (run.path / RELATIONS).exists():
        return [f"The run's folder has no {RELATIONS} yet, which is written at the end."]
    table = pd.read_csv(plain_file(run.path / RELATIONS))
    found = table.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
    found = found.assign(name=found.name.str.replace("_", " "))
    low = found[found.recall < HARDLY]
    sentence = f"Recall@20 is below {HARDLY:.0%} for {len(low)} of {len(found)} relations"
    names = f": {', '.join(low.name)}" if 0 < len(low) < len(found) else ""
    return [charts.relations(found), f"{sentence}{names}. In brackets: how many are true."]


def picture(run: Record) -> list[Part]:
    """Show predictions on frames of an unseen video, side by side and moving."""
    titles = (
        "Frames of an unseen video: the truth, the prediction, the best triplets",
        "Its first frames, moving",
    )
    shown: list[Part] = []
    for (name, kind), title in zip(PICTURES.items(), titles, strict=True):
        if (run.path / name).exists():
            data = b64encode(plain_file(run.path / name).read_bytes()).decode()
            note = "" if shown else "Triplets are green where they find a true one, else red."
            image = f'<img alt="" src="data:{kind};base64,{data}"/>'
            shown.append(Chart(title, image, title, note))
    return shown or ["There is no picture; it takes the run's checkpoint and its data to draw it."]


def training(run: Record) -> list[Part]:
    """Show parts of the loss and time over epochs as charts, and costs of epochs as a table."""
    parts = charts.parts(run)
    made: list[Part] = [parts] if parts else []
    if not run.epochs:
        return [*made, "No epoch has ended yet."]
    if len(run.epochs) > 1:
        made.append(charts.seconds(run))
    recalls = {line["epoch"]: f"{100 * line['with/recall@20']:.1f}" for line in run.evals}
    rows = [
        {
            "epoch": f"{line['epoch']}",
            "loss": f"{line['loss']:.2f}",
            "seconds": f"{line['seconds']:,.1f}",
            "waiting, s": f"{line['waiting_seconds']:,.1f}",
            "frames/s": f"{line['frames_per_second']:,.0f}",
            "padded": f"{line['padding']:,}",
            "filler": f"{line['filler']:,}",
            "deleted": f"{line['deleted']:,}",
            "memory, MiB": f"{line['peak_memory_mib']:,.0f}",
            "validation Recall@20, %": recalls.get(line["epoch"], "-"),
        }
        for line in run.epochs
    ]
    return [*made, Table("By epoch", rows)]


def cost(run: Record) -> list[Part]:
    """Show padding, waiting, speed and memory of the run."""
    if not run.epochs:
        return ["No epoch has ended yet."]
    means = summarise(run.epochs)
    lines = {
        "frames of an epoch": f"{means['frames']:,.0f} in {means['blocks']:,.0f} blocks",
        "padding": f"{means['padding']:,.0f}, {means['padding'] / means['processed']:.1%}",
        "filler": f"{means['filler']:,.0f} empty slots, to fill the last step",
        "deleted": f"{means['deleted']:,.0f} frames",
        "time of an epoch": f"{means['epoch_seconds']:,.1f} s, the median",
        "waiting for data": f"{means['waiting_seconds'] / means['epoch_seconds']:.1%} of that",
        "speed": f"{means['frames_per_second']:,.0f} frames/s",
        "training in all": f"{means['train_seconds']:,.0f} s",
        "peak memory": f"{means['peak_memory_mib']:,.0f} MiB per rank",
    }
    return [pairs("Of an epoch, and of the whole run", lines)]


def config(run: Record) -> list[Part]:
    """Show the keys that differ from their defaults, then all keys."""
    usual, here = defaults(run.config), texts(run.config)
    rows = [{"key": key, "run": here[key], "default": usual.get(key, "-")} for key in here]
    differ = [row for row in rows if row["run"] != row["default"]]
    first: Part = Table("Other than the defaults", differ)
    return [first if differ else "Every key has its default.", Table("Every key", rows)]


def origin(run: Record) -> list[Part]:
    """Show commit, machine and versions, and the command that makes the page again."""
    command = shlex.join(["python", "-m", "training.report", str(run.path)])
    again = f"This page and its pictures: {command}"
    return [pairs("Where it was trained", texts(run.made_on)), again]


SECTIONS: dict[str, tuple[str, Callable[[Record], list[Part]]]] = {
    "reached": ("What it reached", reached),
    "relations": ("Recall by relation", relations),
    "picture": ("An unseen video", picture),
    "training": ("While it trained", training),
    "cost": ("What it cost", cost),
    "config": ("Config", config),
    "origin": ("Commit and machine", origin),
}
"""Anchor -> title and builder of a section."""


def pairs(title: str, lines: Mapping[str, str]) -> Table:
    return Table(title, [{"what": what, "value": value} for what, value in lines.items()])


def texts(groups: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config to ``group.key`` -> value as on a command line."""
    found: dict[str, str] = {}
    for key, value in groups.items():
        if isinstance(value, dict):
            found |= {f"{key}.{name}": text for name, text in texts(value).items()}
        else:
            found[key] = value if isinstance(value, str) else json.dumps(value)
    return found


def defaults(groups: Mapping[str, Any]) -> dict[str, str]:
    """Return the default config of a run's loader, data set and model, where known here."""
    models = [file.stem for file in Path(CONFIGS, "model").glob("*.yaml")]
    known = {"loader": [*PACKERS], "dataset": [*DATASETS], "model": models}
    names = {group: groups[group]["name"] for group in known}
    chosen = [f"{group}={name}" for group, name in names.items() if name in known[group]]
    for more in ([], ["dataset.root=ROOT"]):
        try:
            return texts(asdict(compose_job("train", [*chosen, *more])))
        except OmegaConfBaseException:  # a key has no default
            continue
    return {}

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

from bload import PACKERS
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
HARDLY_LEARNED = 0.03
"""Recall@20 with constraint below which a relation is hardly learned."""


@dataclass(frozen=True)
class Table:
    """Rows of texts and figures by heading; the first column names the row."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    note: str = ""


Part = str | Chart | Table


def summary_line(run: Record) -> str:
    """Describe a run: model, data, loader, progress and recall."""
    config, ranks = run.config, run.config["ranks"]
    names = f"{config['model']['name']} on {config['dataset']['name']}"
    job = f"{names}, loader {config['loader']['name']}, seed {config['train']['seed']}"
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
    return f"{job}, {ranks} rank{'s' * (ranks > 1)}; {state}. {result}"


def results_section(run: Record) -> list[Part]:
    """Show the loss, and Recall during training and at the end, beside that of observers."""
    parts: list[Part] = [charts.loss(run)] if run.steps or run.epochs else []
    if len(run.evals) > 1:
        parts.append(charts.recall_by_step(run))
    if not (last := run.summary):
        return [*parts, "The run has not ended, so its last weights are not evaluated yet."]
    rows = [
        {"constraint": words}
        | {f"Recall@{k}, %": f"{100 * last[f'{key}/recall@{k}']:.1f}" for k in (10, 20, 50)}
        for key, (words, _) in CONSTRAINTS_IN_WORDS.items()
    ]
    title = f"The last weights on split {last['split']}, {last['eval_frames']:,.0f} frames"
    return [charts.recall(last), *parts, Table(title, rows)]


def relations_section(run: Record) -> list[Part]:
    """Show Recall@20 of every relation at the end, and count the hardly learned."""
    if not run.summary or not (run.path / RELATIONS).exists():
        return [f"The run's folder has no {RELATIONS} yet, which is written at the end."]
    table = pd.read_csv(plain_file(run.path / RELATIONS))
    rows = table.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
    rows = rows.assign(name=rows.name.str.replace("_", " "))
    low = rows[rows.recall < HARDLY_LEARNED]
    sentence = f"Recall@20 is below {HARDLY_LEARNED:.0%} for {len(low)} of {len(rows)} relations"
    names = f": {', '.join(low.name)}" if 0 < len(low) < len(rows) else ""
    return [charts.relations(rows), f"{sentence}{names}. In brackets: how many are true."]


def picture_section(run: Record) -> list[Part]:
    """Show predictions on frames of an unseen video, side by side and moving."""
    titles = (
        "Frames of an unseen video: the truth, the prediction, the best triplets",
        "Its first frames, moving",
    )
    images: list[Part] = []
    for (name, kind), title in zip(PICTURES.items(), titles, strict=True):
        if (run.path / name).exists():
            data = b64encode(plain_file(run.path / name).read_bytes()).decode()
            note = "" if images else "Triplets are green where they find a true one, else red."
            image = f'<img alt="" src="data:{kind};base64,{data}"/>'
            images.append(Chart(title, image, title, note))
    return images or ["There is no picture; it takes the run's checkpoint and its data to draw it."]


def training_section(run: Record) -> list[Part]:
    """Show parts of the loss and time over epochs as charts, and costs of epochs as a table."""
    losses = charts.parts(run)
    parts: list[Part] = [losses] if losses else []
    if not run.epochs:
        return [*parts, "No epoch has ended yet."]
    if len(run.epochs) > 1:
        parts.append(charts.seconds(run))
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
    return [*parts, Table("By epoch", rows)]


def cost_section(run: Record) -> list[Part]:
    """Show padding, waiting, speed and memory of the run."""
    if not run.epochs:
        return ["No epoch has ended yet."]
    means = summarise(run.epochs)
    lines = {
        "frames per epoch": f"{means['frames']:,.0f} in {means['blocks']:,.0f} blocks",
        "padding": f"{means['padding']:,.0f}, {means['padding'] / means['processed']:.1%}",
        "filler": f"{means['filler']:,.0f} slots, which complete the last step",
        "deleted": f"{means['deleted']:,.0f} frames",
        "time per epoch": f"{means['epoch_seconds']:,.1f} s, the median",
        "waiting for data": f"{means['waiting_seconds'] / means['epoch_seconds']:.1%} of that",
        "speed": f"{means['frames_per_second']:,.0f} frames/s",
        "training in all": f"{means['train_seconds']:,.0f} s",
        "peak memory": f"{means['peak_memory_mib']:,.0f} MiB per rank",
    }
    return [pairs("Per epoch, and in all", lines)]


def config_section(run: Record) -> list[Part]:
    """Show the keys that differ from their defaults, then all keys."""
    known, values = defaults(run.config), texts(run.config)
    rows = [
        {"key": key, "run": value, "default": known.get(key, "-")} for key, value in values.items()
    ]
    changed = [row for row in rows if row["run"] != row["default"]]
    first: Part = Table("Other than the defaults", changed)
    return [first if changed else "Every key has its default.", Table("Every key", rows)]


def origin_section(run: Record) -> list[Part]:
    """Show commit, machine and versions, and the command that makes the page again."""
    command = shlex.join(["python", "-m", "training.report", str(run.path)])
    return [
        pairs("Where it was trained", texts(run.made_on)),
        f"This page and its pictures: {command}",
    ]


SECTIONS: dict[str, tuple[str, Callable[[Record], list[Part]]]] = {
    "results": ("Results", results_section),
    "relations": ("Recall by relation", relations_section),
    "picture": ("An unseen video", picture_section),
    "training": ("Losses and time", training_section),
    "cost": ("Cost", cost_section),
    "config": ("Config", config_section),
    "origin": ("Commit and machine", origin_section),
}
"""Anchor -> title and builder of a section."""


def pairs(title: str, lines: Mapping[str, str]) -> Table:
    return Table(title, [{"what": what, "value": value} for what, value in lines.items()])


def texts(groups: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config to ``group.key`` -> value as on a command line."""
    lines: dict[str, str] = {}
    for key, value in groups.items():
        if isinstance(value, dict):
            lines |= {f"{key}.{name}": text for name, text in texts(value).items()}
        else:
            lines[key] = value if isinstance(value, str) else json.dumps(value)
    return lines


def defaults(groups: Mapping[str, Any]) -> dict[str, str]:
    """Return the default config of a run's loader, data set and model, where known here."""
    models = [file.stem for file in Path(CONFIGS, "model").glob("*.yaml")]
    known = {"loader": [*PACKERS], "dataset": [*DATASETS], "model": models}
    names = {group: groups[group]["name"] for group in known}
    chosen = [f"{group}={name}" for group, name in names.items() if name in known[group]]
    for root in ([], ["dataset.root=ROOT"]):
        try:
            return texts(asdict(compose_job("train", [*chosen, *root])))
        except OmegaConfBaseException:  # a key has no default
            continue
    return {}

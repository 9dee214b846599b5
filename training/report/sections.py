"""Sections of a run's page: its results and costs in words, tables and charts."""

import json
import shlex
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bload import PACKERS, InputError
from datasets.build import DATASETS
from training.compose import compose_job
from training.config import CONFIGS
from training.figures import summarise
from training.printing import CONSTRAINTS_IN_WORDS, compare_with_memoryless
from training.report import charts
from training.report.charts import Chart
from training.report.record import RELATIONS, Record
from training.report.write import PICTURES

HARDLY_LEARNED = 0.03
"""Recall@20 with constraint below which a relation is hardly learned."""


@dataclass(frozen=True)
class Table:
    """Rows of texts and figures by heading; the first column names the row."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    note: str = ""


Part = str | Chart | Table


def summary_line(record: Record) -> str:
    """Describe a run: model, data, loader, progress and recall."""
    config, ranks = record.config, record.config["ranks"]
    names = f"{config['model']['name']} on {config['dataset']['name']}"
    job = f"{names}, loader {config['loader']['name']}, seed {config['train']['seed']}"
    state = f"{len(record.epochs)} epoch{'s' * (len(record.epochs) != 1)}"
    if not record.summary:
        places = [(line["epoch"], line["step"]) for line in (*record.steps, *record.epochs)]
        epoch, step = max(places, default=(1, 0))
        state = f"not finished, epoch {epoch}, step {step}"
    result = ""
    if record.summary:
        result = f"Recall@20 with constraint is {100 * record.summary['with/recall@20']:.1f} %"
        if comparison := compare_with_memoryless(record.summary):
            result += f", {comparison}"
        result += "."
    return f"{job}, {ranks} rank{'s' * (ranks > 1)}; {state}. {result}"


def results_section(record: Record) -> list[Part]:
    """Show the loss, and Recall during training and at the end, beside that of observers."""
    parts: list[Part] = [charts.loss(record)] if record.steps or record.epochs else []
    if len(record.evals) > 1:
        parts.append(charts.recall_by_step(record))
    if not (last := record.summary):
        return [*parts, "The run has not ended, so its last weights are not evaluated yet."]
    rows = [
        {"constraint": words}
        | {f"Recall@{k}, %": f"{100 * last[f'{key}/recall@{k}']:.1f}" for k in (10, 20, 50)}
        for key, (words, _) in CONSTRAINTS_IN_WORDS.items()
    ]
    title = f"The last weights on split {last['split']}, {last['eval_frames']:,.0f} frames"
    return [charts.recall(last), *parts, Table(title, rows)]


def relations_section(record: Record) -> list[Part]:
    """Show Recall@20 of every relation at the end, and count the hardly learned."""
    if not record.summary or not (record.path / RELATIONS).exists():
        return [f"The run's folder has no {RELATIONS} yet, which is written at the end."]
    table = pd.read_csv(record.path / RELATIONS)
    rows = table.query("kind == 'relation' and k == 20 and constraint == 'with'").dropna()
    rows = rows.assign(name=rows.name.str.replace("_", " "))
    weak = rows[rows.recall < HARDLY_LEARNED]
    sentence = f"Recall@20 is below {HARDLY_LEARNED:.0%} for {len(weak)} of {len(rows)} relations"
    names = f": {', '.join(weak.name)}" if 0 < len(weak) < len(rows) else ""
    return [charts.relations(rows), f"{sentence}{names}. In brackets: how many are true."]


def picture_section(record: Record) -> list[Part]:
    """Show predictions on frames of an unseen video, side by side and moving."""
    titles = (
        "Frames of an unseen video: the truth, the prediction, the best triplets",
        "Its first frames, moving",
    )
    images: list[Part] = []
    for (name, kind), title in zip(PICTURES.items(), titles, strict=True):
        if (record.path / name).exists():
            data = b64encode((record.path / name).read_bytes()).decode()
            note = "" if images else "Triplets are green where they find a true one, else red."
            image = f'<img alt="" src="data:{kind};base64,{data}"/>'
            images.append(Chart(title, image, title, note))
    return images or ["There is no picture; it takes the run's checkpoint and its data to draw it."]


def training_section(record: Record) -> list[Part]:
    """Show parts of the loss and time over epochs as charts, and costs of epochs as a table."""
    losses = charts.parts(record)
    parts: list[Part] = [losses] if losses else []
    if not record.epochs:
        return [*parts, "No epoch has ended yet."]
    if len(record.epochs) > 1:
        parts.append(charts.seconds(record))
    recalls = {line["epoch"]: f"{100 * line['with/recall@20']:.1f}" for line in record.evals}
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
        for line in record.epochs
    ]
    return [*parts, Table("By epoch", rows)]


def cost_section(record: Record) -> list[Part]:
    """Show padding, waiting, speed and memory of the run."""
    if not record.epochs:
        return ["No epoch has ended yet."]
    means = summarise(record.epochs)
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


def config_section(record: Record) -> list[Part]:
    """Show the keys that differ from their defaults, then all keys."""
    default_values, values = defaults(record.config), texts(record.config)
    rows = [
        {"key": key, "run": value, "default": default_values.get(key, "-")}
        for key, value in values.items()
    ]
    changed = [row for row in rows if row["run"] != row["default"]]
    first: Part = Table("Other than the defaults", changed)
    return [first if changed else "Every key has its default.", Table("Every key", rows)]


def origin_section(record: Record) -> list[Part]:
    """Show commit, machine and versions, and the command that makes the page again."""
    command = shlex.join(["python", "-m", "training.report", str(record.path)])
    return [
        pairs("Where it was trained", texts(record.made_on)),
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
    return Table(title, [{"what": label, "value": value} for label, value in lines.items()])


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
    known_names = {"loader": [*PACKERS], "dataset": [*DATASETS], "model": models}
    names = {group: groups[group]["name"] for group in known_names}
    overrides = [f"{group}={name}" for group, name in names.items() if name in known_names[group]]
    for root in ([], ["dataset.root=ROOT"]):
        try:
            return texts(asdict(compose_job("train", [*overrides, *root])))
        except InputError:  # a key has no default
            continue
    return {}

"""The sections of a run's page: figures of the run in words, tables and charts."""

import json
import shlex
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict

import pandas as pd
from omegaconf.errors import OmegaConfBaseException

from bload.packers import PACKERS
from datasets.build import DATASETS
from training.config import CONFIGS, compose_job
from training.figures import summarise
from training.page import curves as charts
from training.page.curves import OBSERVERS
from training.page.exhibits import Cell, Exhibit, Part, cell, rows
from training.page.record import RELATIONS, Record, Row, evaluated_after
from training.page.relations import by_relation
from training.printing import CONSTRAINTS, cut_note, verdict
from training.runs import flat

PICTURES = {"prediction.png": "image/png", "prediction.webp": "image/webp"}
"""Files of the frames side by side and of the moving picture."""
COUNTS = {"padded": "padding", "filler": "filler", "deleted": "deleted"}


def lead(run: Record) -> str:
    """What was trained, how far it came and what it reached."""
    config, ranks = run.config, run.config.get("ranks", 1)
    names = f"{config['model']['name']} on {config['dataset']['name']}"
    what = f"{names}, loader {config['loader']['name']}, seed {config['train']['seed']}"
    state = f"{len(run.epochs)} epoch{'s' * (len(run.epochs) != 1)}"
    if not run.ended:
        state = f"not finished, {state} so far"
    said = verdict(run.reached)
    if run.reached and not said:
        said = f"Recall@20 with constraint is {100 * run.reached['with/recall@20']:.1f} %"
    return f"{what}, {ranks} rank{'s' * (ranks > 1)}; {state}. {f'{said}.' if said else ''}"


def reached(run: Record) -> list[Part]:
    """Loss and Recall of the last evaluation, and what observers reach."""
    loss = [charts.loss(run)] if run.steps or run.epochs else []
    if not run.reached:
        return [*loss, "The test split has not been evaluated yet."]
    columns = {
        f"Recall@{k}, %": {of: 100 * run.reached[f"{of}/recall@{k}"] for of in CONSTRAINTS}
        for k in (10, 20, 50, 100)
        if f"with/recall@{k}" in run.reached
    }
    table = rows("constraint", columns, "1 1 1 1", lambda of: CONSTRAINTS[of][0])
    title = f"On the test split, {evaluated_after(run.reached['after'])}"
    observers = []
    if verdict(run.reached):  # of real data no observer is known
        parts = {"all relations": "", "those that must be remembered": "_memory"}
        columns = {
            name: {part: 100 * run.reached[f"{of}/recall@20{parts[part]}"] for part in parts}
            for of, (name, _) in OBSERVERS.items()
        }
        observers = rows("Recall@20 with constraint, %", columns, "1 1 1", str)
    chart = charts.recall(run, observers)
    note = cut_note(run.config["model"].get("queries", 0))
    return [*([chart] if chart else []), *loss, Exhibit(title, table, note)]


def relations(run: Record) -> list[Part]:
    """Recall@20 of every relation at the last evaluation, and which are hardly learned."""
    if not (run.path / RELATIONS).exists():
        return [f"The run's folder has no `{RELATIONS}`, which evaluations write."]
    table = pd.read_csv(run.path / RELATIONS)
    if not run.reached or {*table.checkpoint} != {evaluated_after(run.reached["after"])}:
        return [f"`{RELATIONS}` is not of this run's last evaluation."]
    found = by_relation("Recall@20 by relation", table)
    return [found] if found else []


def picture(run: Record) -> list[Part]:
    """What the model predicts on frames of a test video, side by side and moving."""
    shown: list[Part] = []
    note = "Triplets are green where they find a true one, else red."
    titles = (
        "Frames of a test video: the truth, the prediction, the best triplets",
        "Its first frames, moving",
    )
    for (name, kind), title in zip(PICTURES.items(), titles, strict=True):
        if (run.path / name).exists():
            data = b64encode((run.path / name).read_bytes()).decode()
            image = f'<img alt="" src="data:{kind};base64,{data}"/>'
            shown.append(Exhibit(title, [], "" if shown else note, image, title))
    return shown or [
        "There is no picture; the run's checkpoint and its data are needed to draw it."
    ]


def training(run: Record) -> list[Part]:
    """Parts of the loss, time, empty slots and memory over epochs, as charts and as a table."""
    parts = charts.parts(run)
    made: list[Part] = [parts] if parts else []
    if not run.epochs:
        return [*made, "No epoch has ended yet."]
    if len(run.epochs) > 1:
        made += [charts.seconds(run), charts.memory(run), charts.slots(run)]
    columns: Row = {"loss": "loss", "seconds": "seconds", "waiting, s": "waiting_seconds"}
    columns |= {"frames/s": "frames_per_second", **COUNTS, "memory, MiB": "peak_memory_mib"}
    of = {line["epoch"]: line for line in run.epochs}
    table = {name: {epoch: of[epoch][key] for epoch in of} for name, key in columns.items()}
    table["Recall@20, %"] = {line["epoch"]: 100 * line["with/recall@20"] for line in run.evals}
    forms = "2 1 1 0 0 0 0 0 1"
    return [*made, Exhibit("By epoch", rows("epoch", table, forms, str))]


def cost(run: Record) -> list[Part]:
    """Padding, waiting, speed and memory of the run."""
    if not run.epochs:
        return ["No epoch has ended yet."]
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
    return [_pairs("Of an epoch, and of the whole run", lines)]


def config(run: Record) -> list[Part]:
    """Every key beside its default; those that differ first, and all."""
    usual, here = _defaults(run.config), _texts(run.config)
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
    command = shlex.join(["python", "-m", "training.page", str(run.path)])
    again = f"This page and its pictures: `{command}`."
    if not run.made_on:
        return ["Commit and machine were not recorded.", again]
    groups = {"commit": {"": run.made_on.get("git")}}
    groups |= {name: run.made_on.get(name, {}) for name in ("machine", "versions")}
    lines = [(name, pairs(of).strip()) for name, of in groups.items()]
    return [_pairs("Where it was trained", lines), again]


SECTIONS: dict[str, tuple[str, Callable[[Record], list[Part]]]] = {
    "reached": ("What it reached", reached),
    "relations": ("Recall by relation", relations),
    "picture": ("A test video", picture),
    "training": ("While it trained", training),
    "cost": ("What it cost", cost),
    "config": ("Config", config),
    "origin": ("Commit and machine", origin),
}
"""Anchor -> title and what makes the section."""


def pairs(values: dict) -> str:
    """What `surroundings` found of a machine, or versions, in words."""
    forms = {"memory_gib": "memory {} GiB"}
    said = {key: forms.get(key, f"{key} {{}}").format(of) for key, of in values.items()}
    return ", ".join(said[key] for key, of in values.items() if of is not None)


def _pairs(title: str, lines: list[tuple[str, str]]) -> Exhibit:
    return Exhibit(
        title, [{"what": Cell(a), "value": Cell(b or "-")} for a, b in lines], kind="words"
    )


def _texts(groups: Row) -> dict[str, str]:
    """``group.key`` -> value as on a command line, by group and key."""
    values = flat(dict(sorted(groups.items())))
    return {key: of if isinstance(of, str) else json.dumps(of) for key, of in values.items()}


def _defaults(groups: Row) -> dict[str, str]:
    """The config of a command line that chooses the same groups, as far as they are known here."""
    models = [file.stem for file in (CONFIGS / "model").glob("*.yaml")]
    known = {"loader": [*PACKERS], "dataset": [*DATASETS], "model": models}
    names = {group: groups[group]["name"] for group in known}
    chosen = [f"{group}={name}" for group, name in names.items() if name in known[group]]
    for more in ([], ["dataset.root=ROOT"]):
        try:
            return _texts(asdict(compose_job("train", [*chosen, *more])))
        except OmegaConfBaseException:  # a key has no default
            continue
    return {}

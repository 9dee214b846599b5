"""What was trained: the settings that runs share, those that differ, and the size of the models."""

import math
from dataclasses import MISSING, fields

import pandas as pd
import torch

from bload.errors import InputError
from experiments.report.figures import Exhibit, Part, cell, note, rows
from experiments.report.results import Results, config_keys
from models import build_model
from models.config import ModelConfig, computed_keys


def settings(results: Results) -> list[Part]:
    """Settings by experiment, what most runs have, and every network with its parameters."""
    runs = results.finished
    if runs.empty:
        return ["There is no finished run whose settings could be shown."]
    said = runs[config_keys(runs)].map(_text)
    most = said.mode().iloc[0]
    shared = (said == most).all()
    found = []
    for experiment, own in said.groupby(runs.experiment, sort=False):
        counts = own.nunique()
        differ = (f"{key} {', '.join(own[key].unique())}" for key in counts.index[counts > 1])
        others = own.iloc[0][(counts == 1) & (own.iloc[0] != most)]
        unlike = (f"{key} {value}" for key, value in others.items())
        row = {"experiment": experiment, "runs": len(own), "its runs differ in": "; ".join(differ)}
        row["and share, unlike most runs here"] = "; ".join(unlike)
        found.append({name: cell(value) for name, value in row.items()})
    usual = pd.DataFrame({"value": most, "all": shared.map({True: "all", False: "most"})})
    keys = rows("key", {"value": usual["value"], "runs": usual["all"]}, name=str)
    return [
        Exhibit("By experiment", found, note("settings"), kind="words"),
        Exhibit(f"What all or most runs here have: {len(keys)} keys", keys),
        _models(runs),
    ]


def _text(value: object) -> str:
    """A value of a config as on a command line."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.10g}"
    return "-" if value is None else str(value)


def _models(runs: pd.DataFrame) -> Exhibit:
    """A row per network, by the keys that decide what it computes."""
    keys = [key for key in map("model.{}".format, computed_keys()) if key in runs]
    found = []
    for _, of in runs.groupby(keys, sort=False, dropna=False) if keys else ():
        run = of.iloc[0]
        parts = _parameters(run)
        row = {"model": run["model.name"], "temporal part": run["model.temporal"]}
        row |= {"parameters": sum(parts.values()) or None, "backbone": parts.get("backbone")}
        row |= {"runs": len(of), "experiments": ", ".join(of.experiment.unique())}
        found.append({name: cell(value) for name, value in row.items()})
    return Exhibit("Models", found, note("models"), kind="words")


def _parameters(run: pd.Series) -> dict[str, int]:
    """Parameters by part of the network of a run's config; none if that builds no network."""
    given = {}
    for key in fields(ModelConfig):
        value = run.get(f"model.{key.name}")
        if pd.notna(value):
            given[key.name] = int(value) if key.type is int else value
        elif key.default is MISSING:
            return {}
    try:
        with torch.device("meta"):
            network = build_model(ModelConfig(**given))
    except (InputError, TypeError, ValueError):
        return {}
    return {
        name: sum(one.numel() for one in part.parameters())
        for name, part in network.named_children()
    }

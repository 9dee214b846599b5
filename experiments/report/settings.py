"""What was trained: settings that runs share, those that differ, and the size of networks."""

from dataclasses import MISSING, fields
from typing import Any

import pandas as pd
import torch

from bload.errors import InputError
from experiments.report.exhibits import Exhibit, Part, cell, note, rows
from experiments.report.results import Results, config_keys, text_of
from models import build_model
from models.config import ModelConfig, computed_keys


def settings(results: Results) -> list[Part]:
    """Settings by experiment, those that most runs have, and every network with its parameters."""
    runs = results.finished
    if runs.empty:
        return ["There is no finished run whose settings could be shown."]
    said = runs[sorted(config_keys(runs))].map(text_of, "ignore")
    usual = said.apply(lambda of: of.value_counts(dropna=False).index[0])
    found = []
    for experiment, own in said.groupby(runs.experiment, sort=False):
        counts = own.nunique()
        differ = [f"{key} {_values(own[key])}" for key in own if counts[key] > 1]
        shared = own.dropna(axis="columns").loc[:, counts == 1].iloc[0]
        unlike = [f"{key} {value}" for key, value in shared.items() if value != usual[key]]
        row = {"experiment": experiment, "runs": len(own), "its runs differ in": "; ".join(differ)}
        row["and share, unlike most runs here"] = "; ".join(unlike)
        found.append({name: cell(value) for name, value in row.items()})
    usual = usual.dropna()
    columns = {"value": usual, "runs": (said[usual.index] == usual).sum()}
    return [
        Exhibit("By experiment", found, note("settings"), kind="words"),
        Exhibit(f"The most common value of {len(usual)} keys", rows("key", columns, name=str)),
        Exhibit("Networks", _networks(runs), note("networks"), kind="words"),
    ]


def _values(found: pd.Series) -> str:
    return ", ".join(sorted(found.dropna().unique(), key=lambda of: (len(of), of)))


def _networks(runs: pd.DataFrame) -> list[dict]:
    """A row per network, by the keys that decide what it computes."""
    keys = [key for key in map("model.{}".format, computed_keys()) if key in runs]
    found = []
    for _, of in runs.groupby(keys, sort=False, dropna=False) if keys else ():
        whole, backbone = _parameters(of.iloc[0])
        row = {
            "model": of.iloc[0].get("model.name"),
            "temporal part": of.iloc[0].get("model.temporal"),
        }
        row |= {"parameters": whole, "of the backbone": backbone, "runs": len(of)}
        row["experiments"] = ", ".join(of.experiment.unique())
        found.append({name: cell(value) for name, value in row.items()})
    return found


def _parameters(run: pd.Series) -> tuple[int | None, int | None]:
    """Parameters of a run's network and of its backbone; None if its config builds none."""
    given: dict[str, Any] = {}
    for key in fields(ModelConfig):
        value = run.get(f"model.{key.name}")
        if pd.notna(value):
            given[key.name] = int(value) if key.type is int else value
        elif key.default is MISSING:
            return None, None
    try:
        with torch.device("meta"):
            network = build_model(ModelConfig(**given))
    except (InputError, TypeError, ValueError):
        return None, None
    whole, backbone = (
        sum(one.numel() for one in part.parameters()) for part in (network, network.backbone)
    )
    return whole, backbone

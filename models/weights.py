"""Initial weights: torchvision's ResNet, DETR trained on COCO, or a checkpoint of a run here.

Parameter names tell the kind of file. A run's checkpoint gives all tensors whose names and shapes
are the model's, so that a network trained on single frames (``model.temporal=none``) may start one
with a memory. A ResNet gives only the backbone. DETR (arXiv 2005.12872) gives backbone, input
projection and encoder, its decoder and queries for both branches, and its box head for person,
object and union box. Its ``class_embed`` is left out: it predicts COCO's classes of single objects,
while a query here describes a pair, and half of Action Genome's objects are not COCO's.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torchvision
from torch import Tensor

from bload.errors import InputError
from datasets.files import reading
from models.config import DETR_URL, NAMED_WEIGHTS
from models.dds import DDS

RESNET = {"backbone.": ""}
DETR = {
    "backbone.": "backbone.0.body.",
    "input_proj.": "input_proj.",
    "encoder.": "transformer.encoder.",
    **{f"{branch}_branch.decoder.": "transformer.decoder." for branch in ("object", "relation")},
    **{f"{branch}_branch.query_embed.": "query_embed." for branch in ("object", "relation")},
    **{f"{box}_box.": "bbox_embed." for box in ("person", "object", "union")},
}
"""Prefix of names here -> prefix in a file."""


@dataclass
class LoadReport:
    """Report of `load_weights`; as text, a few lines."""

    source: str
    kind: str
    loaded: Counter[str] = field(default_factory=Counter)
    """Part of the model -> number of tensors."""
    unused: set[str] = field(default_factory=set)
    """Unused parts of the file."""
    initial: dict[str, str] = field(default_factory=dict)
    """Part of the model that kept its initial values -> why."""

    def __str__(self) -> str:
        loaded = (f"{part} ({tensors})" for part, tensors in self.loaded.items())
        initial = (f"{part} ({reason})" for part, reason in self.initial.items())
        return (
            f"weights of a {self.kind} from {self.source}: {self.loaded.total()} tensors\n"
            f"  loaded: {', '.join(loaded)}\n"
            f"  not used: {', '.join(sorted(self.unused)) or 'nothing'}\n"
            f"  as they started: {', '.join(initial) or 'nothing'}"
        )


def load_weights(model: DDS, path_or_url: str) -> LoadReport:
    """Start `model` from a file; report what was loaded and what was not.

    A part, such as a layer, is loaded whole or not at all. From stacks of layers and from queries,
    the first ones that both sides have are loaded. From DETR, a model with ``norm_first`` or
    ``anchored``, unknown to DETR, takes only the backbone. A file does not show its number of
    heads: DETR's have 8.

    Args:
        path_or_url: a ``.pth`` file, a URL (kept in torch's hub folder), or one of `NAMED_WEIGHTS`,
            which stand for URLs.

    Raises:
        InputError: the file is missing, broken or of something else, or its backbone is not the
            model's.
    """
    return fill(model, read_weights(path_or_url), path_or_url)


def read_weights(path_or_url: str) -> dict[str, Tensor]:
    """Read the tensors of a file, without executing anything; raises as `load_weights`."""
    source = resolve_url(path_or_url)
    is_url = "://" in source
    if not is_url and not Path(source).is_file():
        raise InputError(
            f"there is no file {source}; model.weights takes a file (a run's checkpoint once that "
            f"run is trained), a URL, {', '.join(NAMED_WEIGHTS)} or null; DETR's file is {DETR_URL}"
        )
    with reading(source, "fetch the file again, and give its path as model.weights=FILE"):
        if not is_url:
            state = torch.load(source, map_location="cpu", weights_only=True)
        else:
            state = _fetch(source)
    if isinstance(state, dict) and isinstance(state.get("model"), dict):
        state = state["model"]
    pairs = state.items() if isinstance(state, dict) else ()
    return {str(name): value for name, value in pairs if isinstance(value, Tensor)}


def _fetch(url: str) -> Any:
    try:
        return torch.hub.load_state_dict_from_url(
            url,
            map_location="cpu",
            progress=sys.stderr.isatty(),
            check_hash=re.search(r"-[a-f0-9]{8,}\.", url) is not None,
            weights_only=True,
        )
    except OSError as error:
        raise InputError(
            f"{url} cannot be fetched ({error}); fetch it on a machine with network "
            f"(wget {url}), then give model.weights=FILE"
        ) from error


def resolve_url(path_or_url: str) -> str:
    """Return the URL of one of `NAMED_WEIGHTS`; a file or a URL stays as it is."""
    if path_or_url == "detr":
        return DETR_URL
    if path_or_url in NAMED_WEIGHTS:
        return torchvision.models.get_model_weights(path_or_url).DEFAULT.url
    return path_or_url


def noise_warning(backbone: str, rate: float) -> str:
    """Return a warning if a pretrained kind of backbone starts without weights; else ''.

    Frozen batch norms gather no statistics, and the recipe's rate only fine-tunes.
    """
    if backbone not in NAMED_WEIGHTS:
        return ""
    words = "detr (DETR's, fetched once) or resnet50" if backbone == "resnet50" else backbone
    return (
        f"warning: {backbone} starts from noise (model.weights is null), with frozen batch norms "
        f"and train.backbone_lr={rate:g}, as suits pretrained weights: expect it to learn little; "
        f"give model.weights={words}"
    )


@torch.no_grad()
def fill(model: DDS, state: dict[str, Tensor], source: str) -> LoadReport:
    """Copy tensors into the model; see `load_weights`."""
    targets = model.state_dict()
    if any(name.startswith("object_branch.") for name in state):
        return _fill_from_checkpoint(targets, state, source)
    is_detr = any(name.startswith(DETR["backbone."]) for name in state)
    prefixes, kind = (DETR, "DETR") if is_detr else (RESNET, "ResNet")
    difference = difference_from_detr(model) if is_detr else ""
    report = LoadReport(source, kind)
    # Frozen batch norm counts no batches.
    unused = {name for name in state if not name.endswith("num_batches_tracked")}
    parts: dict[str, dict[str, str]] = {}
    for name in targets:
        parts.setdefault(part_name(name), {})[name] = file_name(name, prefixes)
    check_backbone(set(parts["backbone"].values()), unused, prefixes["backbone."], source)
    for part, places in parts.items():
        if "" in places.values():
            reason = "not in such a file"
        elif difference and part != "backbone":
            reason = difference
        else:
            reason = misfit(targets, state, places)
        if reason and part == "backbone":
            raise InputError(f"{source} does not fit the model's backbone: {reason}")
        if reason:
            report.initial[part] = reason
            continue
        for name, place in places.items():
            model_rows, file_rows = len(targets[name]), len(state[place])
            rows = min(model_rows, file_rows)
            targets[name][:rows].copy_(state[place][:rows])
            if rows < model_rows:
                report.initial[f"{part} {rows} to {model_rows - 1}"] = (
                    f"the file has {rows} queries"
                )
        report.loaded[part.partition(".layers.")[0]] += len(places)
        unused -= set(places.values())
    report.unused |= {part_name(name) for name in unused}
    return report


def _fill_from_checkpoint(
    targets: dict[str, Tensor], state: dict[str, Tensor], source: str
) -> LoadReport:
    """Copy tensors of equal name and shape; all of the backbone must match."""
    report = LoadReport(
        source, "checkpoint", unused={part_name(name) for name in state.keys() - targets}
    )
    for name, target in targets.items():
        reason = misfit(targets, state, {name: name})
        if reason and name.startswith("backbone."):
            raise InputError(f"{source} does not fit the model's backbone: {reason}")
        if reason:
            report.initial.setdefault(part_name(name), reason)
            continue
        target.copy_(state[name])
        report.loaded[part_name(name)] += 1
    return report


def part_name(name: str) -> str:
    """Return the layer, or other part, that a tensor of the model or of a file belongs to."""
    match = re.match(r"(\w+\.)?(en|de)coder\.layers\.\d+|\w+_branch\.\w+|\w+", name)
    return match[0] if match else name


def file_name(name: str, prefixes: dict[str, str]) -> str:
    """Return the name in the file of a tensor of the model; '' if such files have none."""
    name = name.replace(".feedforward.linear", ".linear")
    name = re.sub(r"\.sublayer(\d)\.norm\.", r".norm\1.", name)
    prefix = next((candidate for candidate in prefixes if name.startswith(candidate)), None)
    return "" if prefix is None else prefixes[prefix] + name.removeprefix(prefix)


def misfit(targets: dict[str, Tensor], state: dict[str, Tensor], places: dict[str, str]) -> str:
    """Say why a part cannot be loaded; '' if it can."""
    for name, place in places.items():
        if place not in state:
            return f"the file has no {place}"
        model_shape, file_shape = tuple(targets[name].shape), tuple(state[place].shape)
        first = 1 if place == "query_embed.weight" else 0  # any number of queries fits
        if model_shape[first:] != file_shape[first:]:
            return f"{name} is {model_shape}, in the file {file_shape}"
    return ""


def check_backbone(model_names: set[str], state: set[str], prefix: str, source: str) -> None:
    """Raise `InputError` unless the file has the tensors of the model's ResNet, and no others."""
    file_names = {name for name in state if name.startswith(prefix) and not name.startswith("fc.")}
    if model_names != file_names:
        raise InputError(
            f"{source} does not fit the model's backbone: {min(model_names ^ file_names)} and "
            f"{len(model_names ^ file_names) - 1} other tensors are in one of them alone; give a "
            "ResNet of torchvision's or a DETR checkpoint and set model.backbone to its ResNet"
        )


def difference_from_detr(model: DDS) -> str:
    """Say why DETR's transformer would compute something else in this model; '' if it would not."""
    if any(getattr(module, "norm_first", False) for module in model.encoder.modules()):
        return "DETR norms after each sub-layer, model.norm_first before"
    if model.reference is not None:
        return "DETR's queries have no anchors, model.anchored gives them some"
    return ""

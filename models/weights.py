"""Weights to start from: torchvision's ResNet, or a DETR checkpoint trained on COCO.

A file is told by its names. Of a ResNet the backbone is taken; of DETR (arXiv 2005.12872) backbone,
input projection and encoder, its decoder and queries for both branches, and its box head for
person, object and union box. Its ``class_embed`` is left out: it tells COCO's classes of single
objects, while a query here describes a pair, and half of Action Genome's objects are not COCO's.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn

from bload.errors import InputError
from models.weight_names import BODY, by_part, file_name, layer_of, resnet_kind

WORDS = ("resnet50", "resnet18")
"""Names that stand for torchvision's own files."""

NOT_USED = {
    "class_embed": "COCO's classes of single objects, not pairs of Action Genome",
    "fc": "ImageNet's classes",
    "num_batches_tracked": "frozen batch norm counts no batches",
}
"""Why parts of known files have no place here."""


@dataclass
class Report:
    """What `load_weights` did; as text, a few lines."""

    source: str
    kind: str
    loaded: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tensors and numbers by part of the model."""
    unused: dict[str, str] = field(default_factory=dict)
    """Parts of the file that were not used, and why."""
    kept: dict[str, str] = field(default_factory=dict)
    """Parts of the model that kept their start, and why."""

    def __str__(self) -> str:
        loaded = [
            f"{part} ({tensors} tensors, {numbers / 1e6:.2f} M)"
            for part, (tensors, numbers) in self.loaded.items()
        ]
        tensors, numbers = (sum(column) for column in zip(*self.loaded.values(), strict=True))
        return "\n".join(
            (
                f"weights of {self.kind} from {self.source}: {tensors} tensors, "
                f"{numbers / 1e6:.2f} M numbers",
                f"  loaded: {', '.join(loaded)}",
                f"  not used: {_with_reasons(self.unused)}",
                f"  as they started: {_with_reasons(self.kept)}",
            )
        )


def load_weights(model: nn.Module, path_or_url: str) -> Report:
    """Start `model` (a `models.DDS`) from a file, and say what was loaded and what was not.

    A part is loaded whole or not at all; of stacks of layers and of queries, the first ones that
    both sides have. The model must be without the features that DETR's transformer does not know
    (``norm_first``, ``anchored``), else only its backbone is loaded. How many heads a file was
    trained with cannot be seen in it: DETR's have 8.

    Args:
        path_or_url: a ``.pth`` file, a URL (kept in torch's hub folder), or a word of `WORDS`.

    Raises:
        InputError: the file is missing, broken or of something else, or its backbone is not the
            model's.
    """
    return fill(model, read_weights(path_or_url), path_or_url)


def read_weights(path_or_url: str) -> dict[str, Tensor]:
    """The tensors of a file, without executing anything."""
    where = path_or_url
    if where in WORDS:
        where = torchvision.models.get_model_weights(where).DEFAULT.url
    is_url = re.match(r"[a-z]+://", where) is not None
    if not is_url and not Path(where).is_file():
        raise InputError(
            f"there is no file {where}; set model.weights to a file, a URL, {' or '.join(WORDS)}, "
            "or null"
        )
    try:
        if is_url:
            state = torch.hub.load_state_dict_from_url(
                where,
                map_location="cpu",
                progress=False,
                check_hash=re.search(r"-[a-f0-9]{8,}\.", where) is not None,
                weights_only=True,
            )
        else:
            state = torch.load(where, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(
            f"{where} could not be {'downloaded' if is_url else 'opened'} "
            f"({' '.join(str(error).split())[:120]}); fetch the file by other means and give its "
            "path as model.weights"
        ) from error
    except Exception as error:  # what a broken file makes the unpickler raise has no bounds
        raise InputError(
            f"{where} cannot be read as weights ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:120]}); fetch the file again and give its path as "
            "model.weights"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("model"), dict):
        state = state["model"]
    if not isinstance(state, dict):
        state = {}
    return {str(name): value for name, value in state.items() if isinstance(value, Tensor)}


@torch.no_grad()
def fill(model: nn.Module, state: dict[str, Tensor], source: str) -> Report:
    """Copy tensors into the model; see `load_weights`."""
    targets = model.state_dict()
    is_detr = any(name.startswith(BODY) for name in state)
    kind = check_backbone(targets, state, BODY if is_detr else "", source)
    unlike = unlike_detr(model) if is_detr else ""
    depths: dict[str, int] = {}
    for stack, layer in filter(None, map(layer_of, state)):
        depths[stack] = max(depths.get(stack, 0), layer + 1)

    report = Report(source, f"DETR with {kind}" if is_detr else kind)
    used: set[str] = set()
    for part, names in by_part(targets).items():
        places = {name: file_name(name, is_detr) for name in names}
        if None in places.values():
            report.kept[part] = "not in such a file"
            continue
        if unlike and part != "backbone":
            report.kept[part] = unlike
            continue
        # The first layers of a stack that both sides have.
        for name in names:
            stack, layer = layer_of(places[name]) or ("", 0)
            if stack and layer >= depths.get(stack, 0):
                report.kept[f"{part}.layers.{layer}"] = (
                    f"the file has {depths.get(stack, 0)} layers"
                )
                del places[name]
        wrong = misfit(targets, state, places)
        if wrong and part == "backbone":
            raise InputError(f"{source} does not fit the model's backbone, {kind}: {wrong}")
        if wrong or not places:
            report.kept[part] = wrong or "the file has no layers of it"
            continue
        numbers = 0
        for name, place in places.items():
            # Of queries there may be more on one side; all else has been found equal in shape.
            rows = slice(min(len(targets[name]), len(state[place])))
            targets[name][rows].copy_(state[place][rows])
            numbers += targets[name][rows].numel()
            if rows.stop < len(targets[name]):
                rest = f"{part} {rows.stop} to {len(targets[name]) - 1}"
                report.kept[rest] = f"the file has {rows.stop} queries"
        report.loaded[part] = (len(places), numbers)
        used |= {*places.values()}
    report.unused = unused(state, used, targets)
    return report


def check_backbone(
    targets: dict[str, Tensor], state: dict[str, Tensor], prefix: str, source: str
) -> str:
    """The ResNet that the file and the model have alike."""
    kind = resnet_kind(state, prefix)
    if kind is None:
        some = ", ".join(list(state)[:3]) or "no tensors"
        raise InputError(
            f"{source} fits nothing here: it holds {some}; set model.weights to a ResNet of "
            "torchvision's or a DETR checkpoint"
        )
    here = resnet_kind(targets, "backbone.")
    if kind != here:
        raise InputError(
            f"{source} has the backbone {kind} and the model {here or 'none that is a ResNet'}; "
            f"set model.backbone={kind} or give other weights"
        )
    return kind


def misfit(targets: dict[str, Tensor], state: dict[str, Tensor], places: dict[str, str]) -> str:
    """Why a part cannot be loaded; empty if it can."""
    for name, place in places.items():
        if place not in state:
            return f"the file has no {place}"
        ours, theirs = tuple(targets[name].shape), tuple(state[place].shape)
        any_rows = place == "query_embed.weight"  # any number of queries will do
        if ours[any_rows:] != theirs[any_rows:]:
            return f"{name} is {ours}, in the file {theirs}"
    return ""


def unlike_detr(model: nn.Module) -> str:
    """Why DETR's transformer would not compute in `model` what it was trained to; else empty."""
    if model.encoder.layers[0].sublayer1.norm_first:
        return "DETR norms after each sub-layer, model.norm_first before"
    if model.reference is not None:
        return "DETR's queries have no anchors, model.anchored gives them some"
    return ""


def unused(state: dict[str, Tensor], used: set[str], targets: dict[str, Tensor]) -> dict[str, str]:
    """Parts of the file that found no place, and why."""
    reasons: dict[str, str] = {}
    for name in state:
        first, last = name.split(".")[0], name.split(".")[-1]
        if name in used:
            if name == "query_embed.weight":
                ours = len(targets["object_branch.query_embed.weight"])
                if ours < len(state[name]):
                    rest = f"query_embed {ours} to {len(state[name]) - 1}"
                    reasons[rest] = f"the model has {ours} queries"
        elif last in NOT_USED:
            reasons[last] = NOT_USED[last]
        elif first in NOT_USED:
            reasons[first] = NOT_USED[first]
        else:
            stack, layer = layer_of(name) or (first, None)
            part = stack if layer is None else f"{stack}.layers.{layer}"
            reasons[part] = "the model has none that fits"
    return reasons


def _with_reasons(parts: dict[str, str]) -> str:
    """``a, b (why); c (why)``."""
    reasons = dict.fromkeys(parts.values())
    together = {why: [part for part in parts if parts[part] == why] for why in reasons}
    return "; ".join(f"{', '.join(parts)} ({why})" for why, parts in together.items()) or "nothing"

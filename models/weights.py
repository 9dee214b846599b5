"""Weights to start from: torchvision's ResNet, or a DETR checkpoint trained on COCO.

The kind of file is detected from its parameter names. From a ResNet only the backbone is loaded;
from DETR (arXiv 2005.12872) backbone, input projection and encoder, its decoder and queries for
both branches, and its box head for person, object and union box. Its ``class_embed`` is left out:
it predicts COCO's classes of single objects, while a query here describes a pair, and half of
Action Genome's objects are not COCO's.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torchvision
from torch import Tensor

from bload.errors import InputError
from models.dds import DDS

WORDS = ("resnet50", "resnet18")
"""Names of torchvision's own files."""
RESNET = {"backbone.": ""}
DETR = {
    "backbone.": "backbone.0.body.",
    "input_proj.": "input_proj.",
    "encoder.": "transformer.encoder.",
    **{f"{branch}_branch.decoder.": "transformer.decoder." for branch in ("object", "relation")},
    **{f"{branch}_branch.query_embed.": "query_embed." for branch in ("object", "relation")},
    **{f"{box}_box.": "bbox_embed." for box in ("person", "object", "union")},
}
"""Prefixes of names here -> in a file."""
RESNETS = {19: "resnet18", 35: "resnet34", 52: "resnet50", 103: "resnet101", 154: "resnet152"}
"""Convolutions of the four stages -> name."""
NOT_USED = {
    "class_embed": "COCO's classes of single objects, not pairs of Action Genome",
    "fc": "ImageNet's classes",
    "num_batches_tracked": "frozen batch norm counts no batches",
}
"""Parts of known files that have no place here -> why."""


@dataclass
class Loaded:
    """Report of `load_weights`; as text, a few lines."""

    source: str
    kind: str
    loaded: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Part of the model -> tensors and numbers."""
    unused: dict[str, str] = field(default_factory=dict)
    """Part of the file that was not used -> why."""
    kept: dict[str, str] = field(default_factory=dict)
    """Part of the model that kept its initial values -> why."""

    def __str__(self) -> str:
        sizes = {part: f"{n} tensors, {m / 1e6:.2f} M" for part, (n, m) in self.loaded.items()}
        tensors, numbers = map(sum, zip(*self.loaded.values(), strict=True))
        return (
            f"weights of {self.kind} from {self.source}: {tensors} tensors, "
            f"{numbers / 1e6:.2f} M numbers\n"
            f"  loaded: {', '.join(f'{part} ({size})' for part, size in sizes.items())}\n"
            f"  not used: {_by_reason(self.unused)}\n"
            f"  as they started: {_by_reason(self.kept)}"
        )


def load_weights(model: DDS, path_or_url: str) -> Loaded:
    """Start `model` from a file, and report what was loaded and what was not.

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
    """Read the tensors of a file, without executing anything; raises as `load_weights`."""
    where = path_or_url
    if where in WORDS:
        where = torchvision.models.get_model_weights(where).DEFAULT.url
    is_url = re.match(r"[a-z]+://", where) is not None
    if not is_url and not Path(where).is_file():
        raise InputError(
            f"there is no file {where}; model.weights takes a file, URL, {', '.join(WORDS)} or null"
        )
    try:
        if is_url:
            has_hash = re.search(r"-[a-f0-9]{8,}\.", where) is not None
            state = torch.hub.load_state_dict_from_url(
                where, map_location="cpu", progress=False, check_hash=has_hash, weights_only=True
            )
        else:
            state = torch.load(where, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken file can make the unpickler raise anything
        offline = is_url and isinstance(error, OSError)
        raise InputError(
            f"{where} {'could not be downloaded' if offline else 'cannot be read as weights'} "
            f"({type(error).__name__}: {' '.join(str(error).split())[:120]}); fetch the file "
            f"{'by other means' if offline else 'again'} and give its path as model.weights"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("model"), dict):
        state = state["model"]
    pairs = state.items() if isinstance(state, dict) else ()
    return {str(name): value for name, value in pairs if isinstance(value, Tensor)}


@torch.no_grad()
def fill(model: DDS, state: dict[str, Tensor], source: str) -> Loaded:
    """Copy tensors into the model; see `load_weights`."""
    targets = model.state_dict()
    is_detr = any(name.startswith(DETR["backbone."]) for name in state)
    prefixes = DETR if is_detr else RESNET
    kind = check_backbone(targets, state, prefixes["backbone."], source)
    unlike = unlike_detr(model) if is_detr else ""
    layers = set(map(layer_of, state))
    report = Loaded(source, f"DETR with {kind}" if is_detr else kind)
    unused = dict.fromkeys(state)
    parts: dict[str, dict[str, str]] = {}
    for name in targets:  # of parts such as encoder and object_branch.decoder
        part = ".".join(name.split(".")[: 2 if "_branch." in name else 1])
        parts.setdefault(part, {})[name] = file_name(name, prefixes)
    for part, places in parts.items():
        if "" in places.values():
            wrong = "not in such a file"
        elif unlike and part != "backbone":
            wrong = unlike
        else:
            for name, place in list(places.items()):
                if layer_of(place) not in layers:
                    number = layer_of(place).split(".")[-1]
                    report.kept[f"{part}.layers.{number}"] = "the file has no such layer"
                    del places[name]
            wrong = misfit(targets, state, places) if places else "the file has no layers of it"
        if wrong and part == "backbone":
            raise InputError(f"{source} does not fit the model's backbone, {kind}: {wrong}")
        if wrong:
            report.kept[part] = wrong
            continue
        numbers = 0
        for name, place in places.items():
            ours, theirs = len(targets[name]), len(state[place])
            rows = min(ours, theirs)
            targets[name][:rows].copy_(state[place][:rows])
            numbers += targets[name][:rows].numel()
            unused.pop(place, None)
            if rows < ours:
                report.kept[f"{part} {rows} to {ours - 1}"] = f"the file has {rows} queries"
            if rows < theirs:
                rest = f"query_embed {rows} to {theirs - 1}"
                report.unused[rest] = f"the model has {rows} queries"
        report.loaded[part] = (len(places), numbers)
    for name in unused:
        words = (name.split(".")[-1], name.split(".")[0])
        part = next((word for word in words if word in NOT_USED), layer_of(name) or words[1])
        report.unused[part] = NOT_USED.get(part, "the model has none that fits")
    return report


def file_name(name: str, prefixes: dict[str, str]) -> str:
    """The name in the file of a tensor of the model; empty if such files have none."""
    name = name.replace(".feedforward.linear", ".linear")
    name = re.sub(r"\.sublayer(\d)\.norm\.", r".norm\1.", name)
    here = next((prefix for prefix in prefixes if name.startswith(prefix)), None)
    return "" if here is None else prefixes[here] + name.removeprefix(here)


def layer_of(name: str) -> str:
    """The layer of DETR's stacks that a tensor of the file is in; empty for others."""
    match = re.match(r"transformer\.(en|de)coder\.layers\.\d+", name)
    return match[0] if match else ""


def misfit(targets: dict[str, Tensor], state: dict[str, Tensor], places: dict[str, str]) -> str:
    """The reason why a part cannot be loaded; empty if it can."""
    for name, place in places.items():
        if place not in state:
            return f"the file has no {place}"
        ours, theirs = tuple(targets[name].shape), tuple(state[place].shape)
        first = 1 if place == "query_embed.weight" else 0  # any number of queries will do
        if ours[first:] != theirs[first:]:
            return f"{name} is {ours}, in the file {theirs}"
    return ""


def check_backbone(ours: Collection[str], state: Collection[str], prefix: str, source: str) -> str:
    """The ResNet that the file and the model have in common."""
    kind, here = resnet_kind(state, prefix), resnet_kind(ours, "backbone.")
    if not kind:
        some = ", ".join(list(state)[:3]) or "no tensors"
        raise InputError(
            f"{source} fits nothing here: it holds {some}; set model.weights to a ResNet of "
            "torchvision's or a DETR checkpoint"
        )
    if kind != here:
        raise InputError(
            f"{source} has the backbone {kind} and the model {here or 'none that is a ResNet'}; "
            f"set model.backbone={kind} or give other weights"
        )
    return kind


def resnet_kind(names: Collection[str], prefix: str) -> str:
    """The ResNet that has these names; empty if none has."""
    pattern = re.escape(prefix) + r"layer[1-4]\.\d+\.(conv\d|downsample\.0)\.weight"
    count = sum(re.fullmatch(pattern, name) is not None for name in names)
    return RESNETS.get(count, f"a ResNet of {count} convolutions" if count else "")


def unlike_detr(model: DDS) -> str:
    """The reason why DETR's transformer would not compute here what it was trained to, or empty."""
    if any(getattr(module, "norm_first", False) for module in model.encoder.modules()):
        return "DETR norms after each sub-layer, model.norm_first before"
    if model.reference is not None:
        return "DETR's queries have no anchors, model.anchored gives them some"
    return ""


def _by_reason(parts: dict[str, str]) -> str:
    """``a, b (why); c (why)``."""
    together = {why: [part for part in parts if parts[part] == why] for why in parts.values()}
    return "; ".join(f"{', '.join(parts)} ({why})" for why, parts in together.items()) or "nothing"

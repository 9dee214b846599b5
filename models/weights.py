"""Initial weights: torchvision's ResNet, DETR trained on COCO, or a checkpoint of a run here.

Parameter names tell the kind of file. A run's checkpoint has this network's names, so that one
trained on single frames (``model.temporal=none``) may start one with a memory; its averaged weights
are taken if it has them. A ResNet gives only the backbone. DETR (arXiv 2005.12872) gives backbone,
input projection and encoder, its decoder and queries for both branches, and its box head for
person, object and union box. Its ``class_embed`` is left out: it predicts COCO's classes of single
objects, while a query here describes a pair, and half of Action Genome's objects are not COCO's.
"""

import re
from collections import Counter
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn

from bload.errors import InputError
from datasets.files import reading
from models.config import DETR_URL, NAMED_WEIGHTS
from models.dds import DDS

DETR_NAMES = {
    "backbone.": "backbone.0.body.",
    "input_proj.": "input_proj.",
    "encoder.": "transformer.encoder.",
    **{f"{branch}_branch.decoder.": "transformer.decoder." for branch in ("object", "relation")},
    **{f"{branch}_branch.query_embed.": "query_embed." for branch in ("object", "relation")},
    **{f"{box}_box.": "bbox_embed." for box in ("person", "object", "union")},
}
"""Prefix of names here -> prefix in a file."""


def load_weights(model: DDS, path_or_url: str) -> str:
    """Start `model` from a file; return a few lines on what was loaded and what was not.

    A tensor is loaded if the file has it in the same shape; of DETR's queries, the first ones that
    both sides have. From DETR, a model with ``norm_first`` or ``anchored``, unknown to DETR, takes
    only the backbone. A file does not show its number of heads: DETR's have 8.

    Args:
        path_or_url: a ``.pth`` file, a URL (kept in torch's hub folder), or one of `NAMED_WEIGHTS`,
            which stand for URLs.

    Raises:
        InputError: the file is missing, broken or of something else, or its backbone is not the
            model's.
    """
    source = path_or_url
    if source in NAMED_WEIGHTS:
        is_detr = source == "detr"
        source = DETR_URL if is_detr else torchvision.models.get_model_weights(source).DEFAULT.url
    if "://" not in source and not Path(source).is_file():
        raise InputError(
            f"there is no file {source}; model.weights takes a file (a run's checkpoint once that "
            f"run is trained), a URL, {', '.join(NAMED_WEIGHTS)} or null; DETR's file is {DETR_URL}"
        )
    with reading(source, "fetch it (wget URL), and give its path as model.weights=FILE"):
        if "://" in source:
            named = path_or_url in NAMED_WEIGHTS  # with a hash in the URL
            state = torch.hub.load_state_dict_from_url(
                source, map_location="cpu", check_hash=named, weights_only=True
            )
        else:
            state = torch.load(source, map_location="cpu", weights_only=True)
    if isinstance(state, dict) and isinstance(state.get("model"), dict):
        path_or_url += f", epoch {state['epoch']}/{state['epochs']}" if "epochs" in state else ""
        averaged = state.get("average", {})  # a run that has them is evaluated with them
        names = [name for name in averaged if name.startswith("module.")]
        state = {n.removeprefix("module."): averaged[n] for n in names} or state["model"]
    pairs = state.items() if isinstance(state, dict) else ()
    tensors = {str(name): value for name, value in pairs if isinstance(value, Tensor)}
    return copy_tensors(model, tensors, path_or_url)


@torch.no_grad()
def copy_tensors(model: DDS, state: dict[str, Tensor], source: str) -> str:
    """Copy tensors into the model; see `load_weights`."""
    kind, prefixes = "ResNet", {"backbone.": ""}
    if any(name.startswith("object_branch.") for name in state):
        kind, prefixes = "checkpoint", {"": ""}
    elif any(name.startswith(DETR_NAMES["backbone."]) for name in state):
        kind, prefixes = "DETR", DETR_NAMES
        if isinstance(model.encoder.norm, nn.LayerNorm) or model.reference is not None:
            kind = "DETR (its backbone alone, as it has neither norm_first nor anchored)"
            prefixes = {"backbone.": DETR_NAMES["backbone."]}
    loaded: Counter[str] = Counter()
    initial: dict[str, None] = {}  # in order
    # Frozen batch norm counts no batches.
    unused = {name for name in state if not name.endswith("num_batches_tracked")}
    for name, target in model.state_dict().items():
        key = name if kind == "checkpoint" else file_name(name, prefixes)
        values = state.get(key, torch.empty(0))
        rows = min(len(target), len(values)) if key == "query_embed.weight" else None
        if target[:rows].shape == values[:rows].shape:
            target[:rows].copy_(values[:rows])
            loaded[part_name(name).partition(".layers.")[0]] += 1
            unused.discard(key)
        elif name.startswith("backbone."):
            found = f"in the file {(*values.shape,)}" if key in state else "not in the file"
            shapes = f"{name} is {(*target.shape,)}, {found}"
            raise _wrong_backbone(source, shapes)
        else:
            initial[part_name(name)] = None
    for name in unused:
        is_backbone = kind == "ResNet" and not name.startswith("fc.")
        if is_backbone or name.startswith("backbone."):
            raise _wrong_backbone(source, f"the model has no {name}")
    return (
        f"weights of a {kind} from {source}: {loaded.total()} tensors\n"
        f"  loaded: {', '.join(f'{part} ({tensors})' for part, tensors in loaded.items())}\n"
        f"  not used: {', '.join(sorted({*map(part_name, unused)})) or 'nothing'}\n"
        f"  as they started: {', '.join(initial) or 'nothing'}"
    )


def _wrong_backbone(source: str, reason: str) -> InputError:
    return InputError(
        f"{source} does not fit the model's backbone: {reason}; give a ResNet of torchvision's, a "
        "DETR checkpoint or a run's, and set model.backbone to its ResNet"
    )


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

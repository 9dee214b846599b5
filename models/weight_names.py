"""Names of tensors: the model's, torchvision's and DETR's."""

import re
from collections.abc import Collection, Iterable

BODY = "backbone.0.body."
"""What names of the backbone begin with in a DETR file."""

DETR_NAMES = (
    (r"backbone\.(.+)", BODY + r"\1"),
    (r"input_proj\.(.+)", r"input_proj.\1"),
    (r"encoder\.(.+)", r"transformer.encoder.\1"),
    (r"(?:object|relation)_branch\.decoder\.(.+)", r"transformer.decoder.\1"),
    (r"(?:object|relation)_branch\.query_embed\.(.+)", r"query_embed.\1"),
    (r"(?:person|object|union)_box\.(.+)", r"bbox_embed.\1"),
)
"""Names here and in a DETR file, up to the names inside a layer."""

RESNETS = {
    ("conv2", 2, 2, 2, 2): "resnet18",
    ("conv2", 3, 4, 6, 3): "resnet34",
    ("conv3", 3, 4, 6, 3): "resnet50",
    ("conv3", 3, 4, 23, 3): "resnet101",
    ("conv3", 3, 8, 36, 3): "resnet152",
}
"""Last convolution of a block and blocks of the four stages."""


def file_name(name: str, is_detr: bool) -> str | None:
    """The name in the file of a tensor of the model; None for what such files do not have."""
    if not is_detr:
        return name.removeprefix("backbone.") if name.startswith("backbone.") else None
    for pattern, replacement in DETR_NAMES:
        if re.fullmatch(pattern, name):
            name = re.sub(pattern, replacement, name)
            name = name.replace(".feedforward.linear", ".linear")
            return re.sub(r"\.sublayer(\d)\.norm\.", r".norm\1.", name)
    return None


def resnet_kind(names: Collection[str], prefix: str) -> str | None:
    """Which ResNet has these names; None if it is none."""
    pattern = re.compile(re.escape(prefix) + r"layer([1-4])\.(\d+)\.conv\d\.weight")
    blocks = {match.groups() for match in map(pattern.fullmatch, names) if match}
    if not blocks:
        return None
    stages = [sum(stage == number for stage, _ in blocks) for number in "1234"]
    last = "conv3" if f"{prefix}layer1.0.conv3.weight" in names else "conv2"
    return RESNETS.get((last, *stages), f"a ResNet of {'+'.join(map(str, stages))} blocks")


def layer_of(name: str) -> tuple[str, int] | None:
    """Which layer of which of DETR's stacks a tensor of the file belongs to."""
    match = re.match(r"(transformer\.(?:en|de)coder)\.layers\.(\d+)\.", name)
    return (match[1], int(match[2])) if match else None


def by_part(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of the model's tensors by part: ``encoder``, ``object_branch.decoder``, ..."""
    parts: dict[str, list[str]] = {}
    for name in names:
        words = name.split(".")
        part = ".".join(words[: 2 if words[0].endswith("_branch") else 1])
        parts.setdefault(part, []).append(name)
    return parts

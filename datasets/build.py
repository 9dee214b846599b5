"""From the flat values of a dataset config to a sequence source."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.annotations.rules import small_boxes_choice
from datasets.augmentation import Augmentation
from datasets.letterbox import Letterbox
from datasets.synthetic.world import World
from datasets.synthetic.writer import ensure
from datasets.synthetic.yardsticks import Yardsticks, make_yardsticks


def build_source(
    split: str,
    *,
    name: str,
    root: str,
    frame_size: Sequence[int],
    small_boxes: str | bool = "keep",
    cache: str | None = None,
    augment: Mapping[str, float] | None = None,
    progress: bool = False,
    **world: int | float,
) -> ActionGenome:
    """One split of the data set that a config names.

    Args:
        split: ``train`` or ``test``.
        name: ``action_genome`` reads `root`; ``synthetic`` makes it first, if it is not there.
        frame_size: height and width of the canvas that frames are fitted into.
        small_boxes: keep, file or computed, see `rules.SMALL_BOXES`; a truth value as
            configs had before.
        cache: a folder for resized frames, see `ActionGenome`.
        augment: changes no source, see `build_letterbox`.
        progress: show a bar while synthetic data are made or a cache is filled.
        world: the knobs of the synthetic world, see `datasets.synthetic.world.World`.

    Raises:
        InputError: an unknown name, a root that is missing or made with other knobs.
    """
    small_boxes = small_boxes_choice(small_boxes)
    if name == "synthetic":
        ensure(root, progress=progress, **world)
    elif name != "action_genome":
        raise InputError(f"there is no dataset {name!r}; choose synthetic or action_genome")
    return ActionGenome(
        root,
        split,
        tuple(frame_size),
        small_boxes=small_boxes,
        cache=cache,
        progress=progress,
    )


def build_letterbox(
    source: ActionGenome, augment: Mapping[str, float] | None, seed: int
) -> Letterbox:
    """What brings training batches of `source` onto the device, augmented as `augment` says."""
    return Letterbox(source, Augmentation(**augment or {}, seed=seed))


def build_yardsticks(source: ActionGenome, **dataset: Any) -> Yardsticks | None:
    """What the recall on `source` is held against: of synthetic data only, else None.

    `dataset` are the values that `build_source` made `source` from.
    """
    if dataset["name"] != "synthetic":
        return None
    knobs = {knob.name: dataset[knob.name] for knob in fields(World) if knob.name in dataset}
    return make_yardsticks(source, World(**knobs))

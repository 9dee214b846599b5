"""From the flat values of a dataset config to a sequence source."""

from collections.abc import Sequence

from bload.errors import InputError
from datasets.action_genome import ActionGenome
from datasets.synthetic.writer import ensure


def build_source(
    split: str,
    *,
    name: str,
    root: str,
    frame_size: Sequence[int],
    small_boxes: bool = False,
    progress: bool = False,
    **world: int | float,
) -> ActionGenome:
    """One split of the data set that a config names.

    Args:
        split: ``train`` or ``test``.
        name: ``action_genome`` reads `root`; ``synthetic`` makes it first, if it is not there.
        frame_size: height and width that frames are resized to.
        progress: show a bar while synthetic data are made.
        world: the knobs of the synthetic world, see `datasets.synthetic.world.World`.

    Raises:
        InputError: an unknown name, a root that is missing or made with other knobs.
    """
    if name == "synthetic":
        ensure(root, progress=progress, **world)
    elif name != "action_genome":
        raise InputError(f"there is no dataset {name!r}; choose synthetic or action_genome")
    return ActionGenome(root, split, tuple(frame_size), small_boxes=small_boxes)

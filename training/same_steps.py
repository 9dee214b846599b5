"""Steps that stay as they are when a run goes on with other ranks."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bload import BlockSampler


def fitting(ranks: int, train: Mapping[str, Any], sampler: "BlockSampler", name: str = "") -> str:
    """What to do so that a step is that of a run on so many ranks again; nothing if it is.

    Args:
        ranks: of the other run.
        train: its config of that name.
        sampler: that of this process.
        name: what has to be set beside, to name the other run.
    """
    here, frames, batches = sampler.world_size, train["batch_frames"], train.get("micro_batches", 1)
    if sampler.plan.has_one_size:  # any share of a step's blocks will do
        thing, units = "block", ranks * batches * max(1, frames // sampler.t_max)
        if units == sampler.blocks_per_step:
            return ""
        keys = {"batch_frames": units // here * sampler.t_max}
        if sampler.micro_batches > 1:
            keys["micro_batches"] = 1
    else:
        thing, units = "batch", ranks * batches
        keys = {"micro_batches": units // here, "batch_frames": frames}
        if keys == {key: getattr(sampler, key) for key in keys}:
            return ""
    if units % here:
        *most, last = (n for n in range(1, units + 1) if units % n == 0)
        fits = f"{', '.join(map(str, most))} or {last} ranks" if most else counted(last, "rank")
        how = f", which {here} ranks cannot share equally: go on with it on {fits}"
    else:
        settings = " ".join([*(f"train.{key}={value}" for key, value in keys.items()), name])
        how = f": to go on with it on {counted(here, 'rank')}, set {settings.rstrip()}"
    return f"its steps have {counted(units, thing)}{how}, or begin another under its own run.name"


def counted(number: int, thing: str) -> str:
    """Write a number of things, as in ``2 batches``."""
    plural = "es" if thing == "batch" else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"

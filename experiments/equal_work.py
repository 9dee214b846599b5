"""Equal work for loaders whose epochs differ in size: epochs counted out of slots."""

from typing import Any


def equal_work(job: dict[str, Any], slots_an_epoch: int) -> dict[str, Any]:
    """The values of a train config that ``slots`` decides: how many epochs, how long a warm-up.

    Epochs are whole ones, at least 1, as near to ``slots`` as can be; the warm-up keeps its share
    of training. Empty if ``slots`` is None. Applied to a config that it has changed, it changes
    nothing.

    Args:
        job: ``epochs``, ``slots`` and ``warmup_epochs`` of `TrainConfig`.
        slots_an_epoch: worked through by all ranks, padding and fillers included.
    """
    if job["slots"] is None:
        return {}
    epochs = max(1, round(job["slots"] / slots_an_epoch))
    return {"epochs": epochs, "warmup_epochs": job["warmup_epochs"] * epochs / job["epochs"]}

"""The exchange of a job: what ranks compute for each other, see `models.exchange`."""

from bload.errors import InputError
from models import DDS
from training.config import TrainJob


def choose_exchange(cfg: TrainJob, model: DDS, ranks: int) -> str:
    """Return ``train.exchange``, or ``none`` for one rank.

    Raises:
        InputError: ranks may have different numbers of batches, or different weights; or queries
            are to be shared, and find each other in the memory, are carried on, or are too few.
    """
    kind = cfg.train.exchange
    if kind != "none" and cfg.loader.deal == "counts":
        raise InputError(
            f"train.exchange={kind} takes as many batches on every rank, and loader.deal=counts "
            "does not deal so; choose another deal or set train.exchange=none"
        )
    if kind != "none" and cfg.train.sync != "allreduce":
        raise InputError(
            f"train.exchange={kind} needs ranks with equal weights, and under "
            f"train.sync={cfg.train.sync} they are apart; set train.sync=allreduce"
        )
    if kind == "queries":
        if cfg.loader.options.get("long") == "carry":
            raise InputError(
                "train.exchange=queries begins every batch anew and loader.long=carry does not; "
                "set train.exchange=frames"
            )
        layers = model.object_branch.temporal.layers
        if any(getattr(layer, "mixes_queries", True) for layer in layers):
            raise InputError(
                "train.exchange=queries shares the queries of a memory over ranks, and those of "
                f"model.temporal={cfg.model.temporal} find each other there; choose gru, "
                "attention, scan or none, or set train.exchange=frames"
            )
        if model.queries < ranks:
            raise InputError(
                f"train.exchange=queries cannot share {model.queries} queries over {ranks} ranks; "
                "raise model.queries or set train.exchange=frames"
            )
    return kind if ranks > 1 else "none"

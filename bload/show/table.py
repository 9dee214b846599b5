"""Table of loaders: padding, deletion and predicted work, beside the lower bound."""

import time
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from bload.packing.packers import PACKERS, find_packer, make_plan
from bload.packing.pieces import Long
from bload.packing.plan import Plan
from bload.packing.randomness import partner_information, repeat_share
from bload.show.recommendation import predict_work

VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "sampling": ({}, {"clips": "all"}),
    "bload": ({"draw": "length"}, {}),
}
"""Options of each row, for packers with several rows."""


def sized_plan(
    lengths: np.ndarray,
    packer: str,
    t_max: int | None,
    clip: int | None,
    long: Long,
    seed: int,
    epoch: int,
    batch_slots: int = 0,
    **options: Any,
) -> Plan:
    """Make a plan with any packer: `clip` slots if it cuts clips, else `t_max` slots and `long`.

    Packers that make batches themselves split where others carry.
    """
    pack = find_packer(packer)
    long = "split" if long == "carry" and pack.makes_batches else long
    options |= {"long": long} if "long" in pack.options else {}
    options |= {"batch_slots": batch_slots} if "batch_slots" in pack.options else {}
    return make_plan(lengths, packer, clip if pack.cuts_clips else t_max, seed, epoch, **options)


def table_rows(
    lengths: np.ndarray,
    *,
    t_max: int | None = None,
    clip: int | None = None,
    long: Long = "error",
    seed: int = 0,
    epochs: int = 1,
    randomness: bool = False,
    ranks: int | None = None,
    batch_slots: int | None = None,
) -> list[dict[str, Any]]:
    """Compute one row per packer and variant; counts that vary between epochs are averaged.

    Args:
        lengths: frames of every sequence, ``(sequences,)``.
        t_max: block size of packers that keep sequences whole; None takes the longest length.
        clip: block size of packers that cut clips; None takes floor(mean length).
        long: how to treat sequences longer than `t_max`, see `bload.packing.pieces.whole_pieces`.
        epochs: plans drawn per row.
        randomness: add ``repeat_share`` and ``partner_information``, from at least two epochs; they
            are None for loaders that never put two sequences into a block.
        ranks: ranks to predict the work for, see `bload.show.recommendation`; None leaves it out.
        batch_slots: slots per rank and step for that prediction; None takes one whole block.

    Raises:
        InputError: as in `make_plan`.
    """
    whole = t_max or int(lengths.max())
    batch_slots = batch_slots or whole
    rows = []
    for packer in PACKERS:
        for options in VARIANTS.get(packer, ({},)):
            seconds, plans = [], []
            for epoch in range(max(epochs, 2) if randomness else epochs):
                began = time.perf_counter()
                plan = sized_plan(
                    lengths, packer, t_max, clip, long, seed, epoch, batch_slots, **options
                )
                plans.append(plan)
                seconds.append(time.perf_counter() - began)
            name = " ".join([packer, *(f"{key}={value}" for key, value in options.items())])
            row = _row(name, plans[:epochs]) | {"seconds": float(np.median(seconds))}
            if randomness:
                together = any(plan.segments > plan.blocks for plan in plans)
                shares = [repeat_share(one, two) for one, two in pairwise(plans)]
                row["repeat_share"] = float(np.mean(shares)) if together else None
                row["partner_information"] = partner_information(plans) if together else None
            if ranks:
                row |= asdict(predict_work(plans[:epochs], ranks, batch_slots))
            rows.append(row)
    slots = {row["loader"]: row.get("slots", 0) for row in rows}
    for row in rows if ranks else ():
        row |= {f"{other}_ratio": slots[other] / row["slots"] for other in ("naive", "ragged")}
    return rows


def _row(name: str, plans: list[Plan]) -> dict[str, Any]:
    paddings = [plan.padding for plan in plans]
    return {
        "loader": name,
        "t_max": plans[0].t_max,
        "sequences": plans[0].sequences,
        "frames": plans[0].frames,
        "blocks": _mean([plan.blocks for plan in plans]),
        "padding": _mean(paddings),
        "padding_min": min(paddings),
        "padding_max": max(paddings),
        "deleted": _mean([plan.deleted for plan in plans]),
        "processed": _mean([plan.processed for plan in plans]),
        "utilisation": float(np.mean([plan.utilisation for plan in plans])),
        "lower_bound_blocks": _mean([plan.lower_bound for plan in plans]),
        "lower_bound_padding": _mean([plan.lower_bound_padding for plan in plans]),
        "epochs": len(plans),
    }


def _mean(counts: list[int]) -> int | float:
    """Return the mean, as an int if all counts are equal."""
    return counts[0] if len(set(counts)) == 1 else float(np.mean(counts))

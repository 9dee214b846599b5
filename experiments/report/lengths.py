"""What packing saves where lengths vary otherwise: ``python -m experiments.length_variance``."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bload.draw import INK, label_of
from experiments.report.charts import chart
from experiments.report.figures import Estimate, Exhibit, Part, estimate, missing, note, rows
from experiments.report.results import Results

COLOURS = ("#0f62ad", "#b4500b", "#7a3fb8", "#0a7a52", "#a83260", "#3d7a8a", "#8a6d1f")
KEYS = ["lengths", "loader"]
PACKED = "bload"
"""The loader whose savings are drawn."""
ALONE = ("single", "bucket", "ragged", "bload")
"""Loaders whose imbalance stands in the table of lengths."""


def lengths(results: Results) -> list[Part]:
    record = results.measured("length_variance")
    if record is None:
        return [missing("what packing saves on other lengths", "length_variance")]
    found = pd.DataFrame(record["rows"]).set_index(KEYS)
    found = found.assign(**{name: found[name].map(estimate) for name in ("times_fewer", "imbalance")})
    return [_savings(found, record), _every_loader(found)]


def _saved(times: Estimate) -> Estimate:
    """Of slots, in percent, where there are so many times fewer."""
    mean, low, high = (100 - 100 / of for of in (times.mean, times.low, times.high))
    return Estimate(mean, low, high, times.count)


def _savings(found: pd.DataFrame, record: dict[str, Any]) -> Exhibit:
    """A point for each kind of lengths, what it would be without padding, and the floor."""
    packed = found.xs(PACKED, level="loader")
    saved = packed.times_fewer.map(_saved)
    whole = [name.removesuffix(", cut") for name in packed.index]
    colour = dict(zip(dict.fromkeys(whole), COLOURS, strict=False))

    def draw(axis: Axes) -> None:
        axis.set(
            xlabel="coefficient of variation of the lengths",
            title=f"slots that {label_of(PACKED)} saves over naive padding, %",
            xlim=(0, 1.15 * packed.cv.max()),
            ylim=(0, 104),
        )
        cv = np.linspace(0, 1.15 * packed.cv.max(), 200)
        axis.plot(cv, 100 - 100 / (1 + cv**2), ls="--", color=INK, label="least at this variation")
        for name, kind, at, value in zip(packed.index, whole, packed.cv, saved, strict=True):
            own = kind == name
            axis.plot(at, value.mean, "o", ms=9, mec=colour[kind], mew=2, ls="",
                      mfc=colour[kind] if own else "white", label=kind if own else None)
        axis.plot(packed.cv, 100 - 100 / packed.closed_form, "_", ms=16, mew=1.6, color=INK,
                  label="1 - mean / T_max")
        axis.figure.legend(loc="outside upper left", ncols=3, borderaxespad=0)

    text = "; ".join(
        f"{name} {value.mean:.0f} % at {at:.2f}"
        for name, value, at in zip(packed.index, saved, packed.cv, strict=True)
    )
    columns = {
        "sequences": packed.sequences,
        "mean": packed["mean"],
        "cv": packed.cv,
        "T_max": packed.t_max,
        "T_max / mean": packed.closed_form,
        **{
            f"{label_of(name)}: times fewer": found.xs(name, level="loader").times_fewer
            for name in (PACKED, "bload_exact")
        },
        "saved, %": saved,
        **{
            f"imbalance, {label_of(name)}": found.xs(name, level="loader").imbalance
            for name in ALONE
        },
    }
    table = rows("lengths", columns, "0 1 2 0 2 2 2 1 3 3 3 3", str)
    return chart("What packing saves", 4.2, draw, f"{text}.", table, note("lengths", record))


def _every_loader(found: pd.DataFrame) -> Exhibit:
    kept = found.sequences * found["mean"] - found.deleted
    columns = {
        "loader": {key: label_of(key[1]) for key in found.index},
        "padded per frame kept": found.padding / kept,
        "deleted, %": 100 * found.deleted / (kept + found.deleted),
        "times fewer slots": found.times_fewer,
        "imbalance": found.imbalance,
    }
    table = rows("lengths", columns, "0 4 1 2 3", lambda key: key[0])
    return Exhibit("Every loader on these lengths", table)

"""What packing saves where lengths vary otherwise: ``python -m experiments.length_variance``."""

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from bload.draw import INK, label_of
from experiments.length_variance import CUT, DOUBLE
from experiments.report.charts import chart
from experiments.report.exhibits import (
    Cell,
    Estimate,
    Exhibit,
    Part,
    Rows,
    estimate,
    missing,
    note,
    rows,
)
from experiments.report.results import Results

COLOURS = ("#0f62ad", "#b4500b", "#7a3fb8", "#0a7a52", "#a83260")
BESIDE: dict[str, Any] = {"ha": "right", "va": "center", "fontsize": 8.5}
"""How the name of a point is written."""
DRAWN = ("bload", f"bload_exact {DOUBLE}")
"""Loaders of which the chart has a large point and a small one."""
PACKED = (DRAWN[0], "bload_exact", DRAWN[1])
"""Loaders whose slots stand in the table of lengths."""
ALONE = ("single", "bucket", "ragged", "bload")
"""Loaders whose imbalance stands there."""


def lengths(results: Results) -> list[Part]:
    record = results.measured("length_variance")
    if record is None:
        return [missing("what packing saves on lengths of other data", "length_variance")]
    found = pd.DataFrame(record["rows"]).set_index(["lengths", "loader"])
    by_draw = {name: found[name].map(estimate) for name in ("times_fewer", "imbalance")}
    found = found.assign(**by_draw, saved=by_draw["times_fewer"].map(_saved))
    loaders = dict(iter(found.groupby("loader", sort=False)))
    return [
        _savings({name: of.droplevel("loader") for name, of in loaders.items()}, record),
        _every_loader(found),
        Exhibit("Where the laws are from", _texts(record.get("sources", {})), kind="words"),
    ]


def _texts(sources: dict[str, str]) -> Rows:
    return [{"lengths": Cell(kind), "source": Cell(about)} for kind, about in sources.items()]


def _saved(times: Estimate) -> Estimate:
    """The share of slots, in percent, that is saved where there are so many times fewer."""
    mean, low, high = (100 - 100 / of for of in (times.mean, times.low, times.high))
    return Estimate(mean, low, high, times.count)


def _savings(by: dict[str, pd.DataFrame], record: dict[str, Any]) -> Exhibit:
    """Points for each kind of lengths, what no padding at all would save, and its floor."""
    facts = by[DRAWN[0]]
    whole = [name.removesuffix(CUT) for name in facts.index]
    colour = dict(zip(dict.fromkeys(whole), cycle(COLOURS), strict=False))
    cv = np.linspace(0, max(0.1, 1.15 * facts.cv.max()), 60)

    def draw(axis: Axes) -> None:
        axis.set(xlabel="coefficient of variation of the lengths", xlim=(0, cv[-1]), ylim=(0, 107))
        axis.set_title("slots saved over naive padding, %")
        closed, floor = 100 - 100 / facts.closed_form, 100 - 100 / (1 + cv**2)
        axis.plot(facts.cv, closed, "_", ms=17, mew=1.6, c=INK, label="1 - mean / T_max")
        axis.plot(cv, floor, "--", c=INK, lw=1.6, label="its floor, cv² / (1 + cv²)")
        for name, kind in zip(facts.index, whole, strict=True):
            is_cut = name != kind
            inside, edge = ("white", colour[kind]) if is_cut else (colour[kind], "white")
            at, large, small = facts.cv[name], *(by[of].saved[name].mean for of in DRAWN)
            axis.plot(at, large, "o", ms=9, mec=colour[kind], mfc=inside, mew=1.8)
            axis.plot(at, small, "^", ms=6, mec=edge, mfc=inside, mew=1.2)
            place = (-8, -7 if is_cut else 8)
            axis.annotate(name, (at, large), place, textcoords="offset points", **BESIDE)
        for loader, mark, size in zip(DRAWN, "o^", (9, 6), strict=True):
            name = label_of(loader).replace(f" {DOUBLE}", ", 2 x T_max")
            axis.plot([], [], mark, c=INK, ms=size, label=name)
        axis.plot([], [], "o", ms=9, mec=INK, mfc="white", mew=1.8, label="open: cut lengths")
        axis.figure.legend(loc="outside upper left", ncols=2, borderaxespad=0)

    text = "; ".join(
        f"{name} {by[DRAWN[0]].saved[name].mean:.0f} at {facts.cv[name]:.2f}"
        for name in facts.index
    )
    columns = {
        "sequences": facts.sequences,
        "mean": facts["mean"],
        "cv": facts.cv,
        "T_max": facts.t_max,
        "over T_max / 2, %": 100 * facts.over_half,
        "T_max / mean": facts.closed_form,
        **{f"times fewer: {label_of(of)}": by[of].times_fewer for of in PACKED},
        **{f"imbalance: {label_of(of)}": by[of].imbalance for of in ALONE},
    }
    table = rows("lengths", columns, "0 1 2 0 1 2 2 2 2 3 3 3 3", str)
    says = f"Slots that {label_of(DRAWN[0])} saves, %, at the coefficient of variation: {text}."
    return chart("What packing saves", 4.6, draw, says, table, note("lengths", record))


def _every_loader(found: pd.DataFrame) -> Exhibit:
    kept = found.sequences * found["mean"] - found.deleted
    columns = {
        "loader": {key: label_of(key[1]) for key in found.index},
        "padded": found.padding,
        "padded per frame kept": found.padding / kept,
        "deleted": found.deleted,
        "deleted, %": 100 * found.deleted / (kept + found.deleted),
        "times fewer slots": found.times_fewer,
        "imbalance": found.imbalance,
    }
    table = rows("lengths", columns, "0 0 4 0 1 2 3", lambda key: key[0])
    return Exhibit("Every loader on these lengths", table)

"""Recall@20 of every relation, of runs evaluated with ``eval.py relations=relations.csv``."""

import pandas as pd
from matplotlib.axes import Axes

from datasets.scoring.ranking import CONSTRAINTS
from experiments.report.charts import across, chart
from experiments.report.exhibits import Exhibit, note, rows

COLOURS = {"attention": "#7a3fb8", "spatial": "#0f62ad", "contacting": "#b4500b"}
HARDLY = 0.03
"""A relation whose Recall@20 with constraint is below this is hardly learned."""


def hardly_learned(found: pd.DataFrame) -> str:
    """The sentence on how many relations are hardly learned, by group, and which.

    Args:
        found: a row per relation with its `name`, `group` and `recall` (0 to 1).
    """
    low, all_of = found[found.recall < HARDLY], found.group.value_counts()
    says = (
        f"Hardly learned, which here means Recall@20 with constraint below {100 * HARDLY:.0f} %: "
    )
    if len(low) == len(found):
        return f"{says}all {len(found)} relations."
    counts = []
    for group in (group for group in COLOURS if group in all_of):
        names = ", ".join(sorted(low.name[low.group == group]))
        few = f"{(low.group == group).sum()} of {all_of[group]} {group}"
        counts.append(f"{few} ({names})" if names else few)
    return f"{says}{len(low)} of {len(found)} relations; {', '.join(counts)}."


def by_relation(title: str, found: pd.DataFrame) -> Exhibit | None:
    """Bars of all relations, best first within their group, with their figures; None without any.

    No bars if none is learned.

    Args:
        found: the rows of a RELATIONS file on one checkpoint.
    """
    numbers = {
        key: pd.to_numeric(found[key], errors="coerce") for key in ("k", "triplets", "recall")
    }
    # Action Genome's names as one reads them
    found = found.assign(**numbers, name=found.name.str.replace("_", " ")).query("k == 20")
    index = ["kind", "group", "name"]
    table = (
        found.pivot_table("recall", index, "constraint").reindex(columns=list(CONSTRAINTS)) * 100
    )
    table["triplets"] = found.groupby(index).triplets.first()
    table = table.sort_values("with", ascending=False).reset_index()
    table = table.sort_values("group", key=lambda of: of.map([*COLOURS].index), kind="stable")
    single = table[table.kind == "relation"].reset_index(drop=True)
    if single.empty:
        return None

    def draw(axis: Axes) -> None:
        for group, of in single.groupby("group", sort=False):
            across(axis, of["with"].to_dict(), 0.7, COLOURS[str(group)], str(group))
        counts = [f"{of.name} ({of.triplets:,.0f})" for of in single.itertuples(index=False)]
        axis.set_yticks(single.index, counts)
        axis.set(title="Recall@20 with constraint, %", xlabel="")
        axis.tick_params(axis="y", labelsize=9.5, length=0)
        axis.figure.legend(loc="outside upper left", ncols=3, borderaxespad=0)

    ranges = single.groupby("group", sort=False)["with"].agg(["max", "min"]).itertuples()
    text = "; ".join(f"{group} {most:.1f} to {least:.1f}" for group, most, least in ranges)
    shown = {name: dict(enumerate(table[name])) for name in ("group", "triplets")}
    shown |= {f"{of} constraint, %": dict(enumerate(table[of])) for of in CONSTRAINTS}
    exhibit = rows("relation", shown, "0 0 1 1 1", lambda row: str(table.name.iloc[row]))
    text = f"Recall@20 with constraint, %, of the relations of each group: {text}."
    share = single.assign(recall=single["with"] / 100)
    said = note("relations", found.checkpoint.iloc[0], hardly_learned(share))
    if share.recall.max() < HARDLY:
        return Exhibit(title, exhibit, said)
    return chart(title, 1.2 + 0.2 * len(single), draw, text, exhibit, said)

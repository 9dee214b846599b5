"""Recall@20 of every relation, of runs evaluated with ``eval.py relations=relations.csv``."""

from pathlib import PurePath

import pandas as pd
from matplotlib.axes import Axes

from datasets.scoring.ranking import CONSTRAINTS
from experiments.report.charts import chart
from experiments.report.figures import NOT_HERE, Exhibit, Part, note, rows
from experiments.report.results import RELATIONS, Results

COLOURS = {"attention": "#7a3fb8", "spatial": "#0f62ad", "contacting": "#b4500b"}
HARDLY = 0.03
"""A relation whose Recall@20 with constraint is below this is hardly learned."""
LACKING = (
    f"{NOT_HERE}Recall@20 by relation. Run "
    f"`python eval.py checkpoint=runs/NAME relations={RELATIONS}` and put that file beside the run"
)


def relations(results: Results) -> list[Part]:
    """A chart per evaluated checkpoint, with the figures of all relations and groups."""
    found = results.relations
    numbers = {
        key: pd.to_numeric(found[key], errors="coerce") for key in ("k", "triplets", "recall")
    }
    found = found.assign(**numbers, name=in_words(found.name)).query("k == 20")
    charts = []
    for folder, inside in found.groupby("folder", sort=False):
        several = inside.checkpoint.nunique() > 1
        for checkpoint, of in inside.groupby("checkpoint", sort=False):
            place = f"{folder}, {PurePath(checkpoint).parent.name}" if several else folder
            charts.append(_chart(f"Recall@20 by relation: {place}", str(checkpoint), of))
    return [one for one in charts if one] or [LACKING]


def in_words(names: "pd.Series[str]") -> "pd.Series[str]":
    """Action Genome's names of relations as one reads them: ``in front of``."""
    return names.str.replace("_", " ")


def hardly_learned(found: pd.DataFrame) -> str:
    """The sentence on how many relations are hardly learned, by group, and which.

    Args:
        found: a row per relation with its `name`, `group` and `recall` (0 to 1).
    """
    low, all_of = found[found.recall < HARDLY], found.group.value_counts()
    counts = []
    for group in (group for group in COLOURS if group in all_of):
        names = ", ".join(sorted(low.name[low.group == group]))
        few = f"{(low.group == group).sum()} of {all_of[group]} {group}"
        counts.append(f"{few} ({names})" if names else few)
    return (
        f"Hardly learned, which here means Recall@20 with constraint below {100 * HARDLY:.0f} %: "
        f"{len(low)} of {len(found)} relations; {', '.join(counts)}."
    )


def _chart(title: str, checkpoint: str, found: pd.DataFrame) -> Exhibit | None:
    """Bars of all relations, best first within their group; None without figures."""
    index = ["kind", "group", "name"]
    table = (
        found.pivot_table("recall", index, "constraint").reindex(columns=list(CONSTRAINTS)) * 100
    )
    table["triplets"] = found.groupby(index).triplets.first()
    table = table.sort_values("with", ascending=False).reset_index()
    table = table.sort_values("group", key=lambda of: of.map([*COLOURS].index), kind="stable")
    single = table[table.kind == "relation"]
    if single.empty:
        return None

    def draw(axis: Axes) -> None:
        for group, of in single.groupby("group", sort=False):
            axis.barh(of.name, of["with"], 0.7, color=COLOURS[str(group)], label=group)
        axis.set(
            title="Recall@20 with constraint, %", xlim=(0, 100), ylim=(len(single) - 0.4, -0.6)
        )
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", labelsize=9.5, length=0)
        axis.figure.legend(loc="outside upper left", ncols=3, borderaxespad=0)

    ranges = single.groupby("group", sort=False)["with"].agg(["max", "min"]).itertuples()
    text = "; ".join(f"{group} {most:.1f} to {least:.1f}" for group, most, least in ranges)
    shown = {name: dict(enumerate(table[name])) for name in ("group", "triplets")}
    shown |= {f"{of} constraint, %": dict(enumerate(table[of])) for of in CONSTRAINTS}
    exhibit = rows("relation", shown, "0 0 1 1 1", lambda row: str(table.name.iloc[row]))
    text = f"Recall@20 with constraint, %, of the relations of each group: {text}."
    said = note("relations", checkpoint, hardly_learned(single.assign(recall=single["with"] / 100)))
    return chart(title, 6.2, draw, text, exhibit, said)

"""Recall@20 of every relation, of runs evaluated with ``eval.py relations=relations.csv``."""

from pathlib import PurePath

from experiments.report.exhibits import NOT_HERE, Part
from experiments.report.relation_chart import by_relation
from experiments.report.results import RELATIONS, Results

MOST = 12
"""Checkpoints that are shown beside each other."""
LACKING = (
    f"{NOT_HERE}Recall@20 by relation. Run "
    f"`python eval.py checkpoint=runs/NAME relations={RELATIONS}` and put that file beside the run"
)


def relations(results: Results) -> list[Part]:
    """A chart per evaluated checkpoint, with the figures of all relations and groups."""
    found = results.relations
    count = len(found[["folder", "checkpoint"]].drop_duplicates())
    if count > MOST:
        return [f"Figures by relation of {count} runs: on the page of each, its `report.html`."]
    charts = []
    for folder, inside in found.groupby("folder", sort=False):
        several = inside.checkpoint.nunique() > 1
        for checkpoint, of in inside.groupby("checkpoint", sort=False):
            place = f"{folder}, {PurePath(checkpoint).parent.name}" if several else folder
            charts.append(by_relation(f"Recall@20 by relation: {place}", of))
    return [one for one in charts if one] or [LACKING]

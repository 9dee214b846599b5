"""The page and the lines for runs of one's own: they come first, the paper after them."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from pandas import Index
from tabulate import tabulate

from experiments.report.claims import NOT_TESTED
from experiments.report.exhibits import NOT_HERE, Cell, Exhibit, Part, Rows
from experiments.report.results import Results
from training.printing import EVEN

LAST = ("claims", "paper", "origin")
Page = dict[str, tuple[str, list[Part]]]
"""Anchor -> title and parts of a section."""


def own_first(page: Page) -> Page:
    """The same sections: the runs first, the paper last, and after it what is not here.

    What is not here becomes one table, and so do claims that nothing tests.
    """
    parts = {anchor: [*parts] for anchor, (_, parts) in page.items()}
    parts["claims"] = [part for one in parts["claims"] for part in _claims(one)]
    lacking = dict.fromkeys(part for found in parts.values() for part in found if _lacks(part))
    whats: dict[str, list[str]] = {}
    for text in lacking:
        what, _, command = str(text).removeprefix(NOT_HERE).partition(". Run ")
        whats.setdefault(command, []).append(what)
    table = [
        {"figures": Cell("; ".join(of)), "command": Cell(command)} for command, of in whats.items()
    ]
    order = ["runs", *(anchor for anchor in page if anchor not in ("runs", *LAST)), *LAST]
    shown = {anchor: [part for part in parts[anchor] if not _lacks(part)] for anchor in order}
    ordered = {anchor: (page[anchor][0], shown[anchor]) for anchor in order if shown[anchor]}
    lacks = [Exhibit("What needs other runs", table, kind="words")] if table else []
    return ordered | ({"lacking": ("Not here", [*lacks])} if lacks else {})


def own_lines(results: Results, claims: Rows) -> str:
    """For a terminal a line per run, named by its page if it has one, and one per claim."""
    runs = results.runs
    both = zip(runs.page, runs.run, strict=True)
    names = [str(results.folder / page) if page else run for page, run in both]
    table = "There is no run here." if runs.empty else comparison(runs.set_index(Index(names)))
    return f"{table}\n\n{verdict_lines(sorted(claims, key=_untested))}"


def verdict_lines(claims: Rows) -> str:
    """A line per claim, its verdict first."""
    verdicts = [(row["verdict"], row["the paper's claim"]) for row in claims]
    return tabulate(verdicts, tablefmt="plain", disable_numparse=True)


def _claims(part: Part) -> Sequence[Part]:
    if isinstance(part, str):
        return [part]
    tested = [row for row in part.rows if not _untested(row)]
    rest = [
        {key: row[key] for key in ("the paper's claim", "command")}
        for row in filter(_untested, part.rows)
    ]
    found = (replace(part, rows=tested), Exhibit("Not tested here", rest, kind="words"))
    return [exhibit for exhibit in found if exhibit.rows]


def _untested(claim: dict[str, Cell]) -> bool:
    return claim["verdict"] == NOT_TESTED


def _lacks(part: Part) -> bool:
    return isinstance(part, str) and part.startswith(NOT_HERE)


def comparison(runs: pd.DataFrame) -> str:
    """One line per run of a table as `training.runs.read_runs` makes it, by its index."""
    uneven = runs.get("imbalance", pd.Series(1.0, runs.index))  # runs of before have none
    columns = {
        "padded frames": runs.padding.map("{:,.0f}".format),
        "deleted frames": runs.deleted.map("{:,.0f}".format),
        **({"imbalance": uneven.map("{:.3f}".format)} if (uneven > EVEN).any() else {}),
        "epoch time": runs.epoch_seconds.map("{:.1f} s".format),
        "Recall@20, with constraint": (100 * runs["with/recall@20"]).map("{:.2f} %".format),
        "must be remembered": (100 * runs["with/recall@20_memory"]).map("{:.2f} %".format),
    }
    table = pd.DataFrame(columns).replace("nan %", "")
    table[runs.state != "finished"] = ""
    first = next(iter(columns))
    table[first] = table[first].where(runs.state == "finished", runs.state)
    sides = ["left", *["right"] * len(columns)]
    return tabulate(table, "keys", "plain", disable_numparse=True, colalign=sides)

"""From a folder of runs to report.html, report.md and report.csv in it."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bload.errors import InputError
from datasets.write_whole import write_whole
from experiments.report import ablations, curves, measured, packing, provenance, tables
from experiments.report.charts import svg_file
from experiments.report.claims import claims
from experiments.report.figures import Block, Cell, Estimate, Exhibit, note, template
from experiments.report.results import Results, read_results

SECTIONS: dict[str, tuple[str, Callable[[Results], list[Block]]]] = {
    "paper": ("The paper's table, and ours", tables.overview),
    "claims": ("The paper's claims", lambda results: [claims(results)]),
    "story": ("In one plot", curves.story),
    "details": ("Times, Recall@20 and padding", tables.details),
    "curves": ("Recall@20 while training", curves.curves),
    "blocks": ("Blocks of each loader", lambda _: packing.blocks()),
    "tmax": ("Block size", ablations.block_sizes),
    "ablations": ("Ablations", ablations.ablations),
    "lengths": ("Lengths that vary by orders of magnitude", measured.lengths),
    "deadlock": ("Deadlock", measured.deadlock),
    "runs": ("Every run", provenance.every_run),
    "origin": ("Machines, versions, commands", provenance.origin),
}
"""Anchor -> title and what makes the section; one of your own is one function and one entry."""
TITLE = "BLoad: report of experiments"
COLUMNS = ("section", "table", "line", "row", "column", "text", "value", "low", "high", "count")

Page = dict[str, tuple[str, list[Block]]]


@dataclass(frozen=True, slots=True)
class Report:
    """Where the report was written, and its verdicts as lines for a terminal."""

    html: Path
    markdown: Path
    csv: Path
    summary: str


def write_report(folder: Path | str, charts: Path | str | None = None) -> Report:
    """Render whatever runs are under `folder`, an experiment or a folder of several.

    Args:
        charts: a folder that gets every plot as an SVG file of its own; none if None.

    Raises `InputError` if there is no such folder or one cannot be written to.
    """
    results = read_results(folder)
    page = make_page(results)
    verdicts = [(row["verdict"], row["the paper's claim"]) for row in claims(results).rows]
    lead = note("lead", folder, Counter(results.runs.state), Counter(of for of, _ in verdicts))
    given = {"title": TITLE, "page": page, "lead": lead}
    html, markdown, table = (Path(folder) / f"report.{ending}" for ending in ("html", "md", "csv"))
    _write(html, template("page.html").render(given))
    _write(markdown, re.sub("\n{3,}", "\n\n", template("page.md").render(given)))
    _write(table, csv_of(page))
    for chart in (block for _, blocks in page.values() for block in blocks):
        if charts is not None and isinstance(chart, Exhibit) and chart.svg and not chart.kind:
            name = re.sub(r"[^a-z0-9]+", "_", chart.title.lower()).strip("_")
            _write(Path(charts) / f"{name}.svg", svg_file(chart))
    summary = "\n".join(f"{verdict:<14}  {says}" for verdict, says in verdicts)
    return Report(html, markdown, table, summary)


def make_page(results: Results) -> Page:
    """The report as a value: anchor -> title and blocks of each section."""
    return {anchor: (title, make(results)) for anchor, (title, make) in SECTIONS.items()}


def csv_of(page: Page) -> str:
    """One line per cell; `value`, `low` and `high` are not rounded, `count` is of seeds or runs."""
    lines = []
    for anchor, (_, blocks) in page.items():
        for table in blocks:
            for line, row in enumerate(table.rows if isinstance(table, Exhibit) else [], 1):
                (_, name), *cells = row.items()
                for heading, cell in cells:
                    found = cell.figure or Estimate(math.nan)
                    where = [anchor, table.title, line, _plain(name), heading, _plain(cell)]
                    lines.append([*where, found.mean, found.low, found.high, found.count or None])
    return pd.DataFrame(lines, columns=COLUMNS, dtype=object).to_csv(index=False)


def _plain(cell: Cell) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if not cell.figure and cell != "-" and cell[:1] in "=+-@\t\r" else cell


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; make its folder writable") from error

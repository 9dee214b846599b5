"""From a folder of runs to report.html, report.md and report.csv in it."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from tabulate import tabulate

from bload.errors import InputError
from datasets.write_whole import write_whole
from experiments.report import ablations, curves, measured, packing, provenance, tables
from experiments.report.charts import svg_file
from experiments.report.claims import claims, verdicts
from experiments.report.figures import Block, Cell, Chart, Estimate, Table
from experiments.report.results import Results, read_results

SECTIONS: dict[str, tuple[str, Callable[[Results], list[Block]]]] = {
    "paper": ("The paper's table, and ours", tables.overview),
    "claims": ("The paper's claims", verdicts),
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
_CODE = re.compile(r"`([^`]+)`")

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
    found = claims(results)
    width = max(len(claim.verdict) for claim in found)
    summary = "\n".join(f"{claim.verdict:{width}}  {claim.says}" for claim in found)
    paths = [Path(folder) / f"report.{ending}" for ending in ("html", "md", "csv")]
    lead = _lead(results)
    for path, render in zip(paths, (render_html, render_markdown, render_csv), strict=True):
        _write(path, render(page, lead))
    for _, blocks in page.values() if charts is not None else ():
        for chart in blocks:
            if isinstance(chart, Chart) and chart.is_plot:
                name = re.sub(r"[^a-z0-9]+", "_", chart.title.lower()).strip("_")
                _write(Path(charts) / f"{name}.svg", svg_file(chart))
    return Report(*paths, summary)


def make_page(results: Results) -> Page:
    """The report as a value: anchor -> title and blocks of each section."""
    return {anchor: (title, make(results)) for anchor, (title, make) in SECTIONS.items()}


def _lead(results: Results) -> str:
    counts = results.runs.state.value_counts()
    finished, failed, rest = (counts.get(s, 0) for s in ("finished", "failed", "unfinished"))
    return (
        "The table and the claims of the paper arXiv 2310.10879 (BLoad) beside what was measured "
        f"here. Made from `{results.folder}`: {finished} finished runs, {failed} failed, {rest} "
        "not finished."
    )


def render_html(page: Page, lead: str) -> str:
    """The page by page.html: texts are escaped, drawings are ours, nothing is fetched."""
    environment = Environment(
        loader=PackageLoader("experiments.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    environment.filters["drawing"] = Markup
    return environment.get_template("page.html").render(title=TITLE, lead=lead, page=page)


def _prose(text: str) -> Markup:
    """Escaped text in which `code` between backticks is set as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def render_markdown(page: Page, lead: str) -> str:
    parts = [f"# {TITLE}", _escaped(lead)]
    for title, blocks in page.values():
        parts.append(f"## {title}")
        for block in blocks:
            if isinstance(block, str):
                parts.append(_escaped(block))
            if isinstance(block, Chart):
                parts.append(_escaped(f"**{block.title}.** {block.alternative} {block.note}"))
            if table := table_of(block):
                parts += _markdown_table(table)
    return "\n\n".join(parts) + "\n"


def table_of(block: Block) -> Table | None:
    """The table that a block is or has."""
    table = block.table if isinstance(block, Chart) else block
    return table if isinstance(table, Table) else None


def _markdown_table(table: Table) -> list[str]:
    lines = [{name: _escaped(cell) for name, cell in row.items()} for row in table.rows]
    sides = ["right" if table.is_numeric(name) else "left" for name in lines[0]]
    text = tabulate(lines, "keys", "pipe", disable_numparse=True, colalign=sides)
    text = re.sub("  +", " ", re.sub("-{4,}", "---", text))
    return [part for part in (f"**{table.title}**", text, _escaped(table.note)) if part]


def _escaped(text: str) -> str:
    """One line in which nothing from a run is a column, a tag or a link."""
    return re.sub(r"[|<]|(?<=\])\(", r"\\\g<0>", " ".join(text.split()))


def render_csv(page: Page, lead: str) -> str:
    """One line per cell; `value`, `low` and `high` are not rounded, `count` is of seeds or runs."""
    lines = []
    for anchor, (_, blocks) in page.items():
        for table in filter(None, map(table_of, blocks)):
            for line, row in enumerate(table.rows, 1):
                (_, name), *cells = row.items()
                for heading, cell in cells:
                    found = cell.figure or Estimate(math.nan)
                    where = [anchor, table.title, line, _plain(name), heading, _plain(cell)]
                    lines.append([*where, found.mean, found.low, found.high, found.count])
    return pd.DataFrame(lines, columns=COLUMNS, dtype=object).to_csv(index=False)


def _plain(cell: Cell) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{cell}" if not cell.figure and cell != "-" and cell[:1] in "=+-@\t\r" else cell


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; make its folder writable") from error

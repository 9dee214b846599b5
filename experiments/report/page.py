"""From a folder of runs to report.html and report.md in it."""

import re
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jinja2 import TemplateError

from bload.errors import InputError
from datasets.write_whole import write_whole
from experiments.report import plots, provenance, tables
from experiments.report.alternatives import alternatives
from experiments.report.charts import KINDS
from experiments.report.claims import claims
from experiments.report.convergence import convergence
from experiments.report.exhibits import Exhibit, Part, note, template
from experiments.report.horizon import horizon
from experiments.report.latex import main_table
from experiments.report.lengths import lengths
from experiments.report.own import own_first, own_lines, verdict_lines
from experiments.report.relations import relations
from experiments.report.results import Results, read_results
from experiments.report.settings import settings
from training.page.write import PAGE

SECTIONS: dict[str, tuple[str, Callable[[Results], list[Part]]]] = {
    "story": ("At a glance", plots.story),
    "claims": ("The paper's claims", lambda results: [claims(results)]),
    "paper": ("The paper's table, and ours", lambda results: [tables.overview(results)]),
    "details": ("Times and Recall@20", tables.details),
    "curves": ("While training", plots.curves),
    "horizon": ("When whole videos beat clips", horizon),
    "convergence": ("Long training", convergence),
    "relations": ("By relation", relations),
    "ablations": ("Ablations", plots.ablations),
    "alternatives": ("What else could feed the ranks", alternatives),
    "tmax": ("Block size", plots.block_sizes),
    "lengths": ("Spread of lengths", lengths),
    "deadlock": ("Deadlock", tables.deadlock),
    "settings": ("Hyperparameters", settings),
    "runs": ("Every run", provenance.every_run),
    "origin": ("Origin", provenance.origin),
}
"""Anchor -> title and what makes the section; one of your own is one function and one entry."""

Content = str | Callable[[Path], object]
"""Of a file, or what writes it."""


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report, how many are charts, and what a terminal shows of it."""

    html: Path
    markdown: Path
    summary: str
    charts: int = 0


UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def shown(parts: list[Part]) -> list[Part]:
    """The parts that have something to show: figures that are missing leave no row."""
    return [part for part in parts if isinstance(part, str) or part.rows or part.svg]


def write_report(
    folder: Path | str, charts: Path | str | None = None, latex: Path | str | None = None
) -> Written:
    """Render whatever runs are under `folder`, an experiment or a folder of several.

    With finished runs of `paper_table` the page is about the paper; else runs come first.

    Args:
        charts: a folder that gets every plot as an SVG and a PDF file; none if None.
        latex: a file for the paper's table with ours in LaTeX; none if None.

    Raises `InputError` if there is no such folder or one cannot be written to.
    """
    results = read_results(folder)
    html, markdown = Path(folder) / PAGE, Path(folder) / "report.md"
    try:
        page = {anchor: (title, shown(make(results))) for anchor, (title, make) in SECTIONS.items()}
        judged, own = claims(results).rows, results.are_own
        page = own_first(page) if own else page
        summary = own_lines(results, judged) if own else verdict_lines(judged)
        counts = Counter(results.runs.state), Counter(row["verdict"] for row in judged)
        data = [*results.finished.data.dropna().unique()]
        lead = note("own_lead" if own else "lead", folder, *counts, data)
        given = {"title": "BLoad: report of experiments", "page": page, "lead": lead}
        files: dict[Path, Content] = {
            html: template("page.html").render(given),
            markdown: re.sub("\n{3,}", "\n\n", template("page.md").render(given)),
        }
        if latex is not None:
            files[Path(latex)] = main_table(results)
    except (*UNREADABLE, TemplateError) as error:
        raise InputError(
            f"{folder} holds a run or a record that is not as training writes it, or this is a bug "
            f"of the report ({type(error).__name__}: {error}, in {_place(error)}); move that run "
            "elsewhere, or report the bug"
        ) from error
    drawn: dict[Path, Content] = {}
    for block in (block for _, blocks in page.values() for block in blocks):
        if charts is not None and isinstance(block, Exhibit) and block.save:
            name = re.sub(r"[^a-z0-9]+", "_", block.title.lower()).strip("_")
            for kind in KINDS:
                drawn[Path(charts) / f"{name}.{kind}"] = partial(block.save, kind=kind)
    for path, content in (files | drawn).items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error}; name another folder") from error
    return Written(html, markdown, summary, len(drawn))


def _place(error: Exception) -> str:
    """The line of the report's code or templates that failed."""
    here = Path(__file__).parent
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if here in Path(f.filename).parents
    ]
    return f"{Path(frames[-1].filename).name} line {frames[-1].lineno}"

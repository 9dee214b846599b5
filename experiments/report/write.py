"""From a folder of runs to report.html, report.md and report.csv in it."""

import os
from dataclasses import dataclass
from pathlib import Path

from bload.errors import InputError
from experiments.report.ablations import ablations_section, t_max_section
from experiments.report.claims import claims, claims_section
from experiments.report.collect import Collection, collect
from experiments.report.curves import curves_section
from experiments.report.document import Page
from experiments.report.experiments import deadlock_section, lengths_section
from experiments.report.figures import render_csv
from experiments.report.html import render_html
from experiments.report.markdown import render_markdown
from experiments.report.packing import blocks_section
from experiments.report.paper_table import paper_section
from experiments.report.provenance import origin_section, runs_section
from experiments.report.svg_file import svg_files


@dataclass(frozen=True, slots=True)
class Report:
    """Where the report was written, and its verdicts as lines for a terminal."""

    html: Path
    markdown: Path
    csv: Path
    summary: str


def write_report(folder: Path | str, charts: Path | str | None = None) -> Report:
    """Render whatever finished runs are under `folder`, an experiment or a folder of several.

    Args:
        charts: a folder that gets every plot as an SVG file of its own; none if None.

    Raises `InputError` if there is no such folder or one cannot be written to.
    """
    folder = Path(folder)
    collection = collect(folder)
    page = make_page(collection)
    report = Report(
        *(folder / f"report.{ending}" for ending in ("html", "md", "csv")),
        _summary(collection),
    )
    for path, text in (
        (report.html, render_html(page)),
        (report.markdown, render_markdown(page)),
        (report.csv, render_csv(page)),
    ):
        _write(path, text)
    if charts is not None:
        for name, text in svg_files(page).items():
            _write(Path(charts) / name, text)
    return report


def make_page(collection: Collection) -> Page:
    """The report as a value: sections of tables, charts and texts."""
    counts = [
        sum(run.state == state for one in collection.experiments for run in one.runs)
        for state in ("finished", "failed", "unfinished")
    ]
    lead = (
        "The table and the claims of the paper arXiv 2310.10879 (BLoad) beside what was "
        f"measured here. Made from `{collection.folder}`: {counts[0]} finished runs, {counts[1]} "
        f"failed, {counts[2]} not finished."
    )
    sections = (
        claims_section(collection),
        paper_section(collection),
        curves_section(collection),
        blocks_section(),
        t_max_section(collection),
        ablations_section(collection),
        lengths_section(collection),
        deadlock_section(collection),
        runs_section(collection),
        origin_section(collection),
    )
    return Page("BLoad: report of experiments", lead, sections)


def _summary(collection: Collection) -> str:
    found = claims(collection)
    width = max(len(claim.verdict) for claim in found)
    return "\n".join(f"{claim.verdict.ljust(width)}  {claim.says}" for claim in found)


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(path.suffix + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}; make its folder writable") from error

"""Page of a run: ``report.html`` in its folder, with ``prediction.png`` and ``.webp`` in it."""

import re
import traceback
from pathlib import Path

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from datasets.action_genome import VideoSource
from datasets.machine import write_whole
from training.folder import LAST
from training.report.record import Record, note_machine, read_record
from training.report.sections import PICTURES, SECTIONS, summary_line
from training.report.video import draw_run

PAGE = "report.html"


def begin_page(path: Path) -> None:
    """Write down the machine on which a run begins or resumes; delete its page and pictures."""
    note_machine(path)
    for file in drawn_files(path):
        file.unlink()


def drawn_files(path: Path) -> list[Path]:
    """Return the existing page and pictures of a run."""
    return [path / name for name in (PAGE, *PICTURES) if (path / name).exists()]


def write_page(path: Path, device: torch.device, source: VideoSource | None = None) -> None:
    """Draw the pictures and the page of a run.

    Args:
        source: the split of the run's figures; None opens it, and makes no data.

    Raises:
        InputError: `path` is no run.
    """
    record = read_record(path)
    if (path / LAST).exists():
        for name, picture in zip(PICTURES, draw_run(path / LAST, device, source), strict=True):
            write_whole(path / name, picture)
    write_whole(path / PAGE, _render(record))


def write_or_warn(path: Path, device: torch.device, source: VideoSource) -> None:
    """Call `write_page` at the end of a run, and only warn if it fails."""
    try:
        write_page(path, device, source)
    except Exception:
        traceback.print_exc()
        print(f"warning: no page; python -m training.report {path} tries it again")


def _render(record: Record) -> str:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["figure"] = lambda cell: re.fullmatch(r"[-\d.,]+", cell) is not None
    page = {anchor: (title, make(record)) for anchor, (title, make) in SECTIONS.items()}
    title = f"BLoad: run {record.path.name}"
    return environment.get_template("page.html").render(
        title=title, lead=summary_line(record), page=page
    )

"""A run on one page: ``report.html`` in its folder, with ``prediction.png`` and ``.webp`` in it."""

import traceback
from pathlib import Path

import torch

from datasets.action_genome import VideoSource
from datasets.write_whole import write_whole
from training.folder import LAST
from training.page.exhibits import Part, template
from training.page.picture import draw_run
from training.page.record import Record, note_machine, read_record
from training.page.sections import PICTURES, SECTIONS, lead

PAGE = "report.html"
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def begin_page(path: Path) -> None:
    """Note the machine on which a run begins or goes on; forget what was drawn of it before."""
    note_machine(path)
    for file in drawn(path).values():
        file.unlink()


def drawn(path: Path) -> dict[str, Path]:
    """The files drawn of a run that are there, by what they are."""
    files = zip(("picture", "moving picture", "report"), (*PICTURES, PAGE), strict=True)
    return {of: path / name for of, name in files if (path / name).exists()}


def write_page(path: Path, device: torch.device, source: VideoSource | None = None) -> None:
    """Draw pictures and page of a run.

    Args:
        source: the test split; None opens the run's own, and makes no data.

    Raises:
        InputError: `path` is no run.
    """
    run = read_record(path)
    if (path / LAST).exists():
        for name, picture in zip(PICTURES, draw_run(path / LAST, device, source), strict=True):
            write_whole(path / name, picture)
    write_whole(path / PAGE, _render(run))


def write_or_warn(path: Path, device: torch.device, source: VideoSource) -> None:
    """As `write_page`, at the end of a run, which no failure of this kind may spoil."""
    try:
        write_page(path, device, source)
    except Exception:
        traceback.print_exc()
        print(f"warning: no page; python -m training.page {path} tries it again")


def shown(parts: list[Part]) -> list[Part]:
    """The parts that have something to show: figures that are missing leave no row."""
    return [part for part in parts if isinstance(part, str) or part.rows or part.svg]


def _render(run: Record) -> str:
    page = {anchor: (title, shown(make(run))) for anchor, (title, make) in SECTIONS.items()}
    title = f"BLoad: run {run.path.name}"
    return template("page.html").render(title=title, lead=lead(run), page=page)

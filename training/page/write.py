"""A run on one page: ``report.html`` in its folder, with ``prediction.png`` and ``.webp`` in it."""

from pathlib import Path

import torch
from jinja2 import TemplateError

from bload.errors import InputError
from datasets.action_genome import VideoSource
from datasets.write_whole import write_whole
from training.failures import sentence_of
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


def write_page(path: Path, device: torch.device, source: VideoSource | None = None) -> str:
    """Draw pictures and page of a run; return why there are no new pictures, else nothing.

    Args:
        source: the test split; None opens the run's own, and makes no data.

    Raises:
        InputError: `path` is no run, or holds something that training does not write.
    """
    run, lacking = read_record(path), ""
    try:
        for name, picture in zip(PICTURES, draw_run(path / LAST, device, source), strict=True):
            write_whole(path / name, picture)
    except (InputError, OSError) as error:
        lacking = sentence_of(error) or ""
    try:
        text = _render(run)
    except (*UNREADABLE, TemplateError) as error:
        raise InputError(
            f"{path} holds something that training does not write, or this is a bug of the page "
            f"({type(error).__name__}: {error}); report it"
        ) from error
    write_whole(path / PAGE, text)
    return lacking


def write_or_warn(path: Path, device: torch.device, source: VideoSource) -> None:
    """As `write_page`, at the end of a run, which no failure of this kind may spoil."""
    try:
        lacking = write_page(path, device, source)
    except Exception as error:
        lacking = sentence_of(error) or f"{type(error).__name__}: {error}"
    if lacking:
        again = f"python -m experiments.report {path}"
        print(f"warning: pictures or report could not be made ({lacking}); {again} tries it again")


def shown(parts: list[Part]) -> list[Part]:
    """The parts that have something to show: figures that are missing leave no row."""
    return [part for part in parts if isinstance(part, str) or part.rows or part.svg]


def _render(run: Record) -> str:
    page = {anchor: (title, shown(make(run))) for anchor, (title, make) in SECTIONS.items()}
    title = f"BLoad: run {run.path.name}"
    return template("page.html").render(title=title, lead=lead(run), page=page)

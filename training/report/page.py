"""Draw the page of a run with its pictures."""

import re
import sys
from pathlib import Path

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bload import InputError
from datasets.action_genome import VideoSource
from datasets.files import write_whole
from training.folder import LAST
from training.report.record import Record, read_record
from training.report.sections import SECTIONS, summary_line
from training.report.video import draw_run
from training.report.write import PAGE, PICTURES


def write_page(path: Path, device: torch.device, source: VideoSource | None = None) -> None:
    """Draw the pictures and the page of a run.

    Args:
        source: the split of the run's figures; None opens it, and makes no data.

    Raises:
        InputError: `path` is no run.
    """
    record = read_record(path)
    if (path / LAST).exists():
        try:
            pictures = draw_run(path / LAST, device, source)
        except InputError as error:  # such as no data here
            print(f"no picture: {error}", file=sys.stderr)
        else:
            for name, picture in zip(PICTURES, pictures, strict=True):
                write_whole(path / name, picture)
    write_whole(path / PAGE, _render(record))


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

"""The page of a run, ``report.html`` in its folder, with ``prediction.png``."""

import re
import traceback
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bload import InputError
from datasets.files import write_whole
from training.folder import RunFolder
from training.ranks import Ranks
from training.report.frames import Album


def write_page(folder: RunFolder) -> None:
    """Write the page of a run, finished or not.

    Raises:
        InputError: the folder is not that of a run.
    """
    from training.report.sections import make_sections  # with matplotlib and pandas, once

    if not folder.config.is_file():
        raise InputError(f"{folder.path} is not the folder of a run; give one, such as runs/NAME")
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["figure"] = lambda cell: re.fullmatch(r"[-\d.,]+", cell) is not None
    page = environment.get_template("page.html").render(
        title=f"BLoad: run {folder.path.name}", page=make_sections(folder)
    )
    write_whole(folder.page, page)


def write_or_warn(folder: RunFolder, ranks: Ranks, album: Album | None = None) -> None:
    """Draw the picture of a run that has ended, then its page; only warn if that fails.

    All ranks call this.

    Args:
        album: draws the picture, on the rank that has seen its video; None leaves the one there.
    """
    try:
        for _, picture in album.draw() if album else ():
            picture.save(folder.picture)
        error = None
    except Exception:
        error = traceback.format_exc()
    errors = [*filter(None, ranks.gather(error))]  # and the picture is there
    if not ranks.is_first:
        return
    try:
        write_page(folder)
    except Exception:
        errors.append(traceback.format_exc())
    if errors:
        print(*errors, f"warning: python -m training.report {folder.path} tries the page again")

"""Files of a run's page: ``report.html`` in its folder, with ``prediction.png`` and ``.webp``."""

import json
import traceback
from pathlib import Path

import torch

from datasets.action_genome import VideoSource
from datasets.files import write_whole
from training.provenance import environment
from training.report.record import MADE_ON

PAGE = "report.html"
PICTURES = {"prediction.png": "image/png", "prediction.webp": "image/webp"}
"""The still and the moving picture, with their types."""


def begin_page(path: Path) -> None:
    """Write down the machine on which a run begins or resumes; delete its page and pictures."""
    write_whole(path / MADE_ON, json.dumps(environment(), indent=2) + "\n")
    for file in drawn_files(path):
        file.unlink()


def drawn_files(path: Path) -> list[Path]:
    """Return the existing page and pictures of a run."""
    return [path / name for name in (PAGE, *PICTURES) if (path / name).exists()]


def write_or_warn(path: Path, device: torch.device, source: VideoSource) -> None:
    """Call `write_page` at the end of a run, and only warn if it fails."""
    try:
        from training.report.page import write_page  # with matplotlib, once

        write_page(path, device, source)
    except Exception:
        traceback.print_exc()
        print(f"warning: no page; python -m training.report {path} tries it again")

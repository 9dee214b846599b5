"""What eval.py is asked for, looked at before torch is imported, which takes seconds."""

import sys
from pathlib import Path

from bload.errors import InputError
from experiments import cli
from experiments.config import EvalJob
from experiments.help import asked
from experiments.launch import errors_in_one_line


def check_first() -> EvalJob | None:
    """As `cli.check_first`; a path without its key, or with nothing there, ends the process too."""
    with errors_in_one_line():
        check_keys(sys.argv[1:])
        if job := cli.check_first("eval"):
            check_there(job)
    return job


def check_keys(typed: list[str]) -> None:
    """Refuse a path alone, as ``eval.py runs/NAME``; it would be no option of Hydra's."""
    for one in typed:
        path = "=" not in one and not one.startswith("-") and ("/" in one or Path(one).exists())
        if path and not asked(typed):
            raise InputError(f"{one} has no key; type checkpoint={one}, or video={one}")


def check_there(job: EvalJob) -> None:
    """Refuse a checkpoint or a video that is not there; raises `InputError`."""
    if not Path(job.checkpoint).exists():
        raise InputError(
            f"there is no checkpoint {job.checkpoint}; give a .pt file, the folder of a run, or a "
            "folder of these"
        )
    if job.video is not None:
        from datasets.footage import open_footage

        open_footage(Path(job.video), job.fps)

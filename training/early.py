"""What eval.py is to read, looked for before torch is imported, which takes seconds."""

from glob import iglob
from pathlib import Path

from bload.errors import InputError
from training import cli
from training.config import EvalJob
from training.folder import LAST, checkpoint_file
from training.launch import errors_in_one_line


def check_first() -> EvalJob | None:
    """As `cli.check_first`; a checkpoint or a video that is not there ends the process too."""
    job: EvalJob | None = cli.check_first("eval")
    with errors_in_one_line():
        if job and job.video is not None:
            from datasets.footage import open_footage

            open_footage(Path(job.video), job.fps)
        if job:
            _find_checkpoint(Path(job.checkpoint))
    return job


def _find_checkpoint(path: Path) -> None:
    """Raise `InputError` if there is none, or `path` is another file of a run."""
    if path.is_file() and path.suffix != ".pt" and path.with_name(LAST).exists():
        raise InputError(f"{path} is no checkpoint; give the run, checkpoint={path.parent}")
    if not any(iglob("**/*.pt", root_dir=path, recursive=True, include_hidden=True)):
        checkpoint_file(path)

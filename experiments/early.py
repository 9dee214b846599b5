"""What eval.py is to read, looked for before torch is imported, which takes seconds."""

from pathlib import Path

from experiments import cli
from experiments.config import EvalJob
from experiments.launch import errors_in_one_line
from experiments.run_folder import checkpoint_file


def check_first() -> EvalJob | None:
    """As `cli.check_first`; a checkpoint or a video that is not there ends the process too."""
    job: EvalJob | None = cli.check_first("eval")
    with errors_in_one_line():
        if job and not Path(job.checkpoint).is_dir():
            checkpoint_file(job.checkpoint)
        if job and job.video is not None:
            from datasets.footage import open_footage

            open_footage(Path(job.video), job.fps)
    return job

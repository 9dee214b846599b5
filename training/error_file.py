"""The sentence of a failure in the folder of the run that failed: ``error.json`` and the log."""

import contextlib
import logging
from collections.abc import Iterator

from bload.errors import InputError
from training.checkpoint import load_checkpoint
from training.failures import Diverged, traceback_of
from training.folder import RunFolder
from training.provenance import now
from training.ranks import Ranks


@contextlib.contextmanager
def noted(folder: RunFolder, ranks: Ranks, log: logging.Logger) -> Iterator[None]:
    """Leave the sentence with which the body fails in the folder; the first rank's counts.

    That of a training that diverged says which checkpoint was good.
    """
    try:
        yield
    except Diverged as error:
        failure = Diverged(f"{error}; {_last_good(folder)}")
        _note(folder, ranks, log, failure)
        raise failure from error
    except Exception as error:
        _note(folder, ranks, log, error)
        raise


def _note(folder: RunFolder, ranks: Ranks, log: logging.Logger, error: Exception) -> None:
    """Note an error, unless another rank has said why all fail; a full disk may prevent it."""
    said = ranks.describe(error)
    with contextlib.suppress(OSError, InputError):
        log.error(f"Failed: {said}\n{traceback_of(error)}".rstrip())
        if isinstance(error, InputError) or not ranks.told():
            folder.note_error(said, now())


def _last_good(folder: RunFolder) -> str:
    try:
        saved = load_checkpoint(folder.last)
    except InputError:
        return f"there is no good checkpoint in {folder.path}"
    epoch, step = saved["epoch"] + 1, saved["loader"]["step"]
    return f"the last good checkpoint is {folder.last}, epoch {epoch}, step {step}"

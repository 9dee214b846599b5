"""Failures in one sentence that says what can be done about them."""

import traceback

from bload.errors import InputError

WAITED = "has waited for"
"""What a rank says that gives up on another one."""
IN_USE = "is in use by"
"""What a run says whose folder another one is in."""
WORKERS = "if memory or /dev/shm ran out, lower train.workers or train.batch_frames"
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "unable to allocate")
LOST = (
    "connection closed by peer",
    "connection reset by peer",
    "broken pipe",
    "connection refused",
)


class Diverged(InputError):
    """The losses or gradients of a step are not finite."""


def sentence_of(error: BaseException) -> str | None:
    """The sentence for what the user can mend, or the machine refused; None for a bug of ours."""
    if isinstance(error, InputError):
        return str(error)
    # A data worker's error carries the worker's traceback, whose last line is the error.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = (lines[-1] if "Traceback" in str(error) else " ".join(lines)) or type(error).__name__
    low = what.lower()
    no_memory = isinstance(error, RuntimeError) and any(text in low for text in NO_MEMORY)
    if isinstance(error, MemoryError) or no_memory:
        return (
            f"memory ran out ({what[:200]}); lower train.batch_frames, loader.t_max or the model's "
            "sizes, or set model.checkpoint=backbone"
        )
    if isinstance(error, RuntimeError) and what.startswith("DataLoader"):
        return f"{what}; {WORKERS}; the same command goes on from the last checkpoint"
    if isinstance(error, RuntimeError | OSError) and any(text in low for text in LOST):
        return (
            f"another process of this run has ended or its connection was cut ({what[:200]}); its "
            "own words are above or in its log; the same command goes on from the last checkpoint"
        )
    if isinstance(error, OSError):
        return f"{what}; check the path, its disk and its permissions"
    return None


def describe(error: BaseException, rank: int | str) -> str:
    """A sentence for any error, on one line."""
    said = sentence_of(error) or f"rank {rank} failed with {type(error).__name__}: {error}"
    return " ".join(said.split())


def traceback_of(error: BaseException) -> str:
    """The traceback of a bug, empty for what a sentence says."""
    return "" if sentence_of(error) else "".join(traceback.format_exception(error))

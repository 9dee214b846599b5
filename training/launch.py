"""Ranks of a job on this machine, started from a plain ``python`` as torchrun starts them.

This module run as a program is torchrun without its report of thirty lines: what is left is the
sentence of the rank that failed.
"""

from training.stopping import begin

if __name__ == "__main__":
    begin()

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bload.errors import InputError
from datasets.cores import cores
from training.failures import WAITED, describe, traceback_of
from training.stopping import GOES_ON, SIGNALS, STARTER, Stopped, StopRequest, watch_parent

ERROR_FILE = "BLOAD_ERROR_FILE"
"""Environment variable: the file for the sentence of a rank that `launch` started."""
STOPS = (*SIGNALS, signal.SIGPIPE)
SAID = (1, 2, *(128 + number for number in STOPS), -signal.SIGTERM, -signal.SIGABRT)
"""Exit codes of ranks that left a sentence, or that end because another one failed."""


def launch(nproc: int, overrides: Sequence[str]) -> None:
    """Run the script of this process with `overrides` on `nproc` ranks, and wait for their end.

    Raises `InputError` with the sentence of the rank that failed, and `Stopped` once the ranks have
    saved and ended after a signal to this process; a second signal ends them at once. No rank is
    left running either way.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise InputError(
            f"launch.nproc is {nproc} under torchrun, which starts the ranks itself; leave "
            "launch.nproc out, or start with python instead of torchrun"
        )
    with tempfile.TemporaryDirectory(prefix="bload_") as folder:
        error = Path(folder, "error.txt")
        paths = filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
        environment = os.environ | {ERROR_FILE: str(error), STARTER: str(os.getpid())}
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if nproc > 1:
            environment["OMP_NUM_THREADS"] = str(threads(nproc))
        command = [sys.executable, "-m", "training.launch", "--standalone"]
        command += [f"--nproc_per_node={nproc}", sys.argv[0], *overrides]
        # In a session of its own: Ctrl-C in the terminal reaches this process alone.
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        with StopRequest().installed():
            try:
                status = process.wait()
            except Stopped as stopped:
                process.send_signal(signal.SIGTERM)  # torchrun does not handle every signal
                process.wait()  # until its ranks have saved and ended, or a second signal comes
                status = 128 + stopped.number
        unknown = f"the launcher of the ranks ended with status {status}"
        said = error.read_text() if error.exists() else unknown
        if status > 128:
            raise Stopped(status - 128, said.partition(GOES_ON)[2])
        if status:
            sentence, _, traceback_of_rank = said.partition("\n")
            print(traceback_of_rank, end="", file=sys.stderr)
            raise InputError(sentence)


def threads(nproc: int) -> int:
    """Threads per rank: ranks share the cores, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" in os.environ:
        return int(os.environ["OMP_NUM_THREADS"])
    if nproc > 1:
        return max(1, cores() // nproc)
    import torch  # here, as in `main`: a command line is checked, and ranks are started, without it

    return torch.get_num_threads()


def is_launched() -> bool:
    """True in a rank that `launch` started."""
    return ERROR_FILE in os.environ


def leave_error(sentence: str) -> bool:
    """Leave the reason why this rank fails to `launch`; False if that did not start it."""
    if not is_launched():
        return False
    with contextlib.suppress(OSError), open(os.environ[ERROR_FILE], "x") as file:
        file.write(sentence)  # where no other rank was first, and `launch` is still there
    return True


def _tell_torchrun(sentence: str) -> None:
    """Have torchrun, if it started this rank, end its report with the sentence."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        about = {"timestamp": str(int(time.time())), "py_callstack": sentence}  # what it prints
        with contextlib.suppress(OSError):
            text = json.dumps({"message": {"message": sentence, "extraInfo": about}})
            Path(path).write_text(text)


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the process with one sentence on an `InputError` or Ctrl-C inside.

    A rank leaves the sentence to the process that started it, if that one is ours.
    """
    try:
        yield
    except InputError as error:
        _tell_torchrun(str(error))
        if not leave_error(" ".join(str(error).split())):
            print(f"{Path(sys.argv[0]).name}: error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
    except KeyboardInterrupt as error:
        stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
        if not leave_error(str(stopped)) and os.environ.get("RANK", "0") == "0":
            print(f"\n{stopped}", file=sys.stderr, flush=True)
        sys.exit(stopped.status)
    except Exception as error:
        sentence = describe(error, os.environ.get("RANK", "0"))
        _tell_torchrun(sentence)
        more = traceback_of(error)
        if not leave_error(f"{sentence}\n{more}"):
            name = Path(sys.argv[0]).name
            print(f"{more}{name}: error: {sentence}", file=sys.stderr, flush=True)
        sys.exit(1)


def main() -> None:
    """Run torchrun, silently; leave how a rank ended that could not say so itself.

    The exit status is 128 + its number if a signal stopped the ranks.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    watch_parent(int(os.environ[STARTER]), _end)
    os.environ[STARTER] = str(os.getpid())  # the ranks watch this process
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")  # seconds for a step and a save
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # torchrun handles the others
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGTERM))
    logging.disable(logging.CRITICAL)
    try:
        torchrun(sys.argv[1:])
    except ChildFailedError as error:
        silent = {rank: end for rank, end in error.failures.items() if end.exitcode not in SAID}
        rank, end = next(iter(silent.items()), error.get_first_failure())
        how = f"ended with status {end.exitcode}"
        if end.exitcode < 0:
            how = f"was ended by {end.signal_name()}"
        hint = "; if memory ran out, lower train.batch_frames" if end.exitcode == -9 else ""
        file = Path(os.environ[ERROR_FILE])
        if silent and not (file.exists() and WAITED in file.read_text()):
            file.unlink(missing_ok=True)  # the others could only say that it is gone
        leave_error(f"rank {rank} {how}{hint}")
        sys.exit(end.exitcode if not silent and end.exitcode > 128 else 1)
    except SignalException as error:
        sys.exit(128 + error.sigval)


def _end() -> None:
    """End this process, whose starter has left without clearing up."""
    shutil.rmtree(Path(os.environ[ERROR_FILE]).parent, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()

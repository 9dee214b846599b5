"""Starting the ranks of a run from a plain ``python``, with torch's own launcher.

What `torchrun` does for one machine, as a call: processes with the usual variables set, a free
port, and an end for all of them when one fails or someone presses Ctrl-C.
"""

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bload.errors import InputError

Run = Callable[[Any], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What the launcher takes over while it runs."""


def start(run: Run, config: Any) -> None:
    """``run(config)`` here, or on ``launch.nproc`` ranks of this machine if that is more than 1."""
    nproc = config.launch.nproc
    if nproc > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
        raise InputError(
            f"launch.nproc is {nproc} under torchrun, which starts the ranks itself; leave "
            "launch.nproc out, or start with python instead of torchrun"
        )
    if nproc > 1:
        launch(run, config, nproc)
    else:
        run(config)


def launch(run: Run, config: dict[str, Any], nproc: int) -> None:
    """``run(config)`` on `nproc` new processes; returns when all have ended.

    Raises `InputError` with the sentence of the rank that failed, and `KeyboardInterrupt` when this
    process is told to stop. No rank is left running either way.
    """
    others = multiprocessing.active_children()
    with tempfile.TemporaryDirectory(prefix="bload_") as errors, _threads(nproc), _quiet():
        settings = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=nproc,
            run_id="bload",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",  # a free port
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=errors),
        )
        try:
            elastic_launch(settings, _rank)(run, config)
        except ChildFailedError as error:
            raise InputError(_sentence(*error.get_first_failure())) from None
        except SignalException:
            raise KeyboardInterrupt from None
        finally:
            # The launcher does not know of ranks that it was still starting.
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
                    process.join()


def _rank(run: Run, config: dict[str, Any]) -> None:
    """What a rank does: as told, and stops at the first Ctrl-C, however many are sent."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        run(config)
    except InputError as error:
        raise InputError(str(error)) from None  # under the name that `_sentence` looks for
    except KeyboardInterrupt:
        sys.exit(130)


def _sentence(rank: int, failure: ProcessFailure) -> str:
    """What a rank failed of. The traceback of what nobody foresaw is printed."""
    if isinstance(failure.message, dict):  # the rank wrote down what it raised
        text = failure.message["message"]
        if text.startswith(f"{InputError.__name__}: "):
            return text.partition(": ")[2]
        print(failure.message["extraInfo"]["py_callstack"], file=sys.stderr)
        return f"rank {rank} failed with {' '.join(text.split())}"
    if failure.exitcode >= 0:
        return f"rank {rank} ended with status {failure.exitcode}"
    hint = "; if memory ran out, lower train.batch_frames" if failure.exitcode == -9 else ""
    return f"rank {rank} was ended by {failure.signal_name()}{hint}"


def threads(nproc: int) -> int:
    """Threads of a rank: ranks share the cores, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" in os.environ:
        return int(os.environ["OMP_NUM_THREADS"])
    return torch.get_num_threads() if nproc == 1 else max(1, (os.cpu_count() or 1) // nproc)


@contextmanager
def _threads(nproc: int) -> Iterator[None]:
    if nproc == 1 or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(threads(nproc))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the launcher's own log and, afterwards, its signal handlers."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)
        for number, handler in before.items():
            signal.signal(number, handler)

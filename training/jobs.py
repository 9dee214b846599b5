"""Jobs of a command, beyond Hydra: errors, the exit status, a table at the end.

Hydra runs the jobs of ``-m`` one after another in this process, under torchrun in every rank.
"""

import functools
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from bload.errors import InputError
from datasets.files import QuietStream
from training.compose import hydras_words, register, to_job
from training.stopping import AgreedError, Stopped, end_on_signals


class EndedJob(NamedTuple):
    """A job that has ended."""

    overrides: list[str]
    status: int
    result: dict[str, Any]
    """Its summary, or its error."""


ENDED_JOBS: list[EndedJob] = []
IS_FIRST = os.environ.get("RANK", "0") == "0"
TORCHRUNS = "\n(torchrun adds its own traceback)" if "TORCHELASTIC_RUN_ID" in os.environ else ""


def one_job(task: Callable[[Any], dict[str, Any] | None]) -> Callable[[DictConfig], float | None]:
    """Wrap a task under ``@hydra.main``: convert its config to a dataclass, record its end.

    An `InputError` is printed as one sentence, any other exception with its traceback, and the next
    job begins. On several ranks that holds only for an `AgreedError`; otherwise all of them end.
    """

    @functools.wraps(task)
    def job(config: DictConfig) -> float | None:
        hydra, status, result = HydraConfig.get(), 0, {}
        overrides: Any = OmegaConf.to_container(hydra.overrides.task)  # and not resolved
        line, is_sweep = " ".join(overrides), hydra.mode == RunMode.MULTIRUN
        try:
            if is_sweep:
                begin_sweep_job(hydra, overrides)
            result = task(to_job(config)) or {}
            folders = [ended.result.get("folder") for ended in ENDED_JOBS]
            if IS_FIRST and result.get("folder", 0) in folders:
                print(f"warning: {line} is the run of an earlier job; give each a run.name")
        except Stopped as stopped:
            if IS_FIRST:
                print(f"\n{stopped.sentence}{TORCHRUNS}", file=sys.stderr, flush=True)
            raise
        except Exception as error:
            # A launcher plugin runs jobs elsewhere, so it has to see their errors itself.
            if is_sweep and "basic" not in hydra.launcher._target_:
                if not isinstance(error, InputError):
                    raise
                raise CompactHydraException(f"error: {error}") from None  # without a traceback
            status, result = report_error(error, line)
        ENDED_JOBS.append(EndedJob(overrides, status, result))
        return result.get("with/recall@20")  # for sweepers that search

    return job  # type: ignore[return-value]


def begin_sweep_job(hydra: HydraConf, overrides: Sequence[str]) -> None:
    """Check what is given for a sweep, and forget what is for one job alone."""
    if {*(hydra.sweeper.get("params") or ())} - {line.split("=")[0] for line in overrides}:
        raise AgreedError("an experiment is a sweep itself; start one after another")
    os.environ.pop("WANDB_RUN_ID", None)  # it can be that of one job only


def report_error(error: Exception, overrides: str) -> tuple[int, dict[str, Any]]:
    """Print the error of a job; return its status and result, or end this rank without others."""
    is_sentence, is_agreed = isinstance(error, InputError), isinstance(error, AgreedError)
    status, kind = (2, "") if is_sentence else (1, f"{type(error).__name__}: ")
    if not is_sentence:
        traceback.print_exc()
    if IS_FIRST or not is_agreed:
        words = f"error: {error}\n" if is_sentence else ""
        context = f"{words}  in {overrides or 'a run of the defaults'}{TORCHRUNS}"
        print(context, file=sys.stderr, flush=True)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not is_agreed:
        sys.stdout.flush()
        os._exit(status)  # sys.exit would wait for a collective that others never join
    return status, {"error": f"{kind}{error}"}


def run(main: Callable[[], Any]) -> NoReturn:
    """Run the jobs of the command line; print a table if there are several, and exit."""
    register()
    OmegaConf.register_new_resolver("doc", lambda: sys.modules[main.__module__].__doc__)
    os.environ["MPLBACKEND"] = "agg"  # a notebook's is not for programs
    sys.stdout, sys.stderr = QuietStream(sys.stdout), QuietStream(sys.stderr)  # type: ignore
    end_on_signals()
    wants_traceback = os.environ.get("HYDRA_FULL_ERROR") == "1"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raises Hydra's errors, which each rank would print
    try:
        main()
    except CompactHydraException as error:
        if wants_traceback:
            raise
        if IS_FIRST:
            print(f"{hydras_words(error)}{TORCHRUNS}", file=sys.stderr, flush=True)
        end_after_first(1)
    if len(ENDED_JOBS) > 1 and IS_FIRST:
        from training.sweep_table import close_sweep  # of several jobs alone

        print(f"\n{close_sweep(ENDED_JOBS)}", flush=True)
    statuses = {job.status for job in ENDED_JOBS}
    end_after_first(1 if 1 in statuses else max(statuses, default=0))


def end_after_first(status: int) -> NoReturn:
    """Exit; after a failure let rank 0 print and end before, as torchrun then ends all others."""
    if status and not IS_FIRST:
        time.sleep(60)
    sys.exit(status)

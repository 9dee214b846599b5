"""Jobs of a command, beyond Hydra: errors, the exit status, a table at the end.

Hydra runs the jobs of ``-m`` one after another in this process, under torchrun in every rank.
"""

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from omegaconf import DictConfig

from bload.errors import InputError
from training.compose import explain, register, to_job
from training.stopping import AgreedError, Stopped

Row = dict[str, Any]


class Job(NamedTuple):
    """A job that has ended."""

    overrides: str
    status: int
    result: Row
    """Its summary, or its error."""


FINISHED_JOBS: list[Job] = []


def one_job(task: Callable[[Any], Row | None]) -> Callable[[DictConfig], None]:
    """Wrap a task under ``@hydra.main``: convert its config to a dataclass, record its end.

    An `InputError` is printed as one sentence, any other exception with its traceback, and the next
    job begins. On several ranks that holds only for an `AgreedError`; otherwise all of them end.
    """

    @functools.wraps(task)
    def job(config: DictConfig) -> None:
        overrides, rank = " ".join(HydraConfig.get().overrides.task), os.environ.get("RANK", "0")
        is_distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
        context = f"in {overrides or 'a run of the defaults'}"
        status, figures = 0, None
        try:
            figures = task(to_job(config))
        except Stopped as stopped:
            if rank == "0":
                print(f"\n{stopped.sentence}", file=sys.stderr, flush=True)
            raise
        except Exception as error:
            agreed = isinstance(error, AgreedError)
            if isinstance(error, InputError):
                status, figures = 2, {"error": str(error)}
                if rank == "0" or not agreed:
                    print(f"error: {error}\n  {context}", file=sys.stderr, flush=True)
            else:
                status, figures = 1, {"error": f"{type(error).__name__}: {error}"}
                traceback.print_exc()
                print(context, file=sys.stderr, flush=True)
            if is_distributed and not agreed:
                sys.stdout.flush()
                os._exit(status)  # sys.exit would wait for a collective that others never join
        FINISHED_JOBS.append(Job(overrides, status, figures or {}))

    return job  # type: ignore[return-value]


def run(main: Callable[[], Any]) -> NoReturn:
    """Run the jobs of the command line; print a table if there are several, and exit.

    Args:
        main: the function under ``@hydra.main``.
    """
    register()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors itself, and exits
    try:
        main()
    except CompactHydraException as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"error: {explain(error)}", file=sys.stderr, flush=True)
        sys.exit(2)
    if len(FINISHED_JOBS) > 1 and os.environ.get("RANK", "0") == "0":
        from training.sweep_table import close_sweep  # of several jobs alone

        print(f"\n{close_sweep(FINISHED_JOBS)}", flush=True)
    statuses = {job.status for job in FINISHED_JOBS}
    sys.exit(1 if 1 in statuses else max(statuses, default=0))

"""Planning the next epoch in a process of its own while one is trained.

The process is ``python -m bload.ahead``, so it imports no torch and nothing of the program that
trains but, where a packer is that program's own, its module. It reads what to do from its input,
writes the dealt plan to its output, and ends.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

from bload.dealt import Dealt
from bload.errors import InputError, spell
from bload.packers import PACKERS
from bload.plan import Plan


class Ahead:
    """At most one process, which plans and deals one epoch.

    The result is that of planning here. It ends with this process, and with the last reference to
    this value; a copy has none. A planner that ends without a result is a warning.
    """

    def __init__(self) -> None:
        self._running: tuple[int, subprocess.Popen[bytes]] | None = None
        self._end: Callable[[], Any] = lambda: None

    def __reduce__(self) -> tuple[type["Ahead"], tuple[()]]:
        return Ahead, ()

    def start(
        self, epoch: int, packer: str, make_plan: Callable[[], Plan], deal: Callable[[Plan], Dealt]
    ) -> None:
        """Begin to plan an epoch, instead of another that was begun.

        Args:
            epoch: its number.
            packer: a key of `PACKERS`.
            make_plan: makes its plan; as `deal`, something that can be pickled.
            deal: deals the plan.
        """
        if self._running and self._running[0] == epoch:
            return
        self.close()
        with TemporaryFile() as job:
            try:
                if PACKERS[packer].__module__ == "__main__":
                    raise pickle.PicklingError("it stands in the program itself")
                pickle.dump((packer, PACKERS[packer], make_plan, deal), job)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InputError(
                    f"the packer {packer} cannot be sent to another process ({error}); define it "
                    f"at the top of a module, or leave {spell('ahead')} out"
                ) from error
            job.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-m", "bload.ahead", str(os.getpid())],
                stdin=job,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the process that trains
            )
        self._running = epoch, process
        self._end = weakref.finalize(self, _end, process, os.getpid())

    def take(self, epoch: int) -> Dealt | None:
        """Wait for an epoch that was begun and return it; None if it has to be planned here."""
        dealt = None
        if self._running and self._running[0] == epoch:
            process = self._running[1]
            output, _ = process.communicate()
            if process.returncode == 0:
                dealt = pickle.loads(output)
                # made anew, since arrays come out of a pickle writable
                dealt = replace(dealt, plan=replace(dealt.plan))
            else:
                warnings.warn(
                    f"the process that planned epoch {epoch} ended with status "
                    f"{process.returncode}; it is planned anew",
                    stacklevel=2,
                )
        self.close()
        return dealt

    def close(self) -> None:
        """End the process, if there is one."""
        self._end()
        self._running = None


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:  # not in a worker that was forked from it
        with process:
            process.kill()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with, args=[int(sys.argv[1])], daemon=True).start()
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # a packer may print
    packer, pack, make_plan, deal = pickle.load(sys.stdin.buffer)
    PACKERS[packer] = pack
    try:
        pickle.dump(deal(make_plan()), output)
        output.flush()
    except BrokenPipeError:  # the process that asked has ended
        os._exit(1)


if __name__ == "__main__":
    main()

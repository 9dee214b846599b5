import os
import signal
import time

import pytest

from datasets.prepare import termination
from datasets.prepare.termination import Terminated, leave_to_parent, terminable


def status_of_child(seconds: float) -> int:
    """Exit status of a process that leaves signals to its parent, gets both, and goes on."""
    child = os.fork()
    if not child:
        leave_to_parent()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        time.sleep(seconds)
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_worker_goes_on_after_signals_until_its_parent_stops_it():
    assert status_of_child(0.1) == 7


def test_a_worker_whose_parent_does_not_stop_it_ends_by_itself(monkeypatch):
    monkeypatch.setattr(termination, "_SECONDS_TO_STOP", 0.1)
    assert status_of_child(20) == 1


def test_only_the_first_sigterm_interrupts_and_the_handler_is_given_back():
    def terminated_twice():
        with terminable():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                cleaned.append(True)

    before, cleaned = signal.getsignal(signal.SIGTERM), []
    with pytest.raises(Terminated):
        terminated_twice()
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) == before

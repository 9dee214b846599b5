"""A signal stops a run after its step, saved; the same command ends it as if nothing had been."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

import train
from tests.training.jobs import assert_same_run, metrics, one_rank, only_run
from training import evaluation as evaluate
from training import step as engine
from training import stopping
from training.ranks import Ranks
from training.stopping import SIGNALS, Stopped, StopRequest

USR1 = signal.SIGUSR1
OFTEN = ("train.eval_every=1", "train.checkpoint_every=100", "train.log_every=1")


def send(number):
    os.kill(os.getpid(), number)
    time.sleep(0.01)  # Python runs the handler between two of its instructions


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_interrupts_at_once_or_waits_until_it_is_asked(number):
    before = signal.signal(number, signal.SIG_DFL)  # nohup has the tests ignore one
    stop = StopRequest()
    with stop.installed():
        with pytest.raises(Stopped) as stopped:
            send(number)
        assert stopped.value.status == 128 + number
        stop.number = 0
        with stop.deferred():
            send(number)
            send(number)  # the terminal's and torchrun's are one
            assert stop.number == number
    assert signal.getsignal(number) == signal.SIG_DFL
    signal.signal(number, before)


@pytest.mark.parametrize(("rank", "times"), [("0", 1), ("1", 0)])
def test_rank_0_says_at_once_that_a_signal_waits_for_the_step(capfd, monkeypatch, rank, times):
    monkeypatch.setenv("RANK", rank)
    stop = StopRequest()
    with stop.installed(), stop.deferred():
        send(signal.SIGINT)
        send(signal.SIGTERM)  # torchrun's beside the terminal's
        assert capfd.readouterr().err == times * (
            "stopping after this step; once more ends at once\n"
        )


UNREAD = """
import sys
from training.stopping import Stopped, StopRequest
stop = StopRequest()
with stop.installed():
    while not stop.number:
        print("epoch", flush=True)
    print("goes nowhere", flush=True)
sys.stderr.write(str(Stopped(stop.number, "last.pt")))
"""


def without_reader(*command: str) -> subprocess.Popen:
    """Start Python with a standard output that nobody reads beyond its first line, as ``head``."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    process.stdout.close()
    return process


def test_output_that_nobody_reads_is_a_wish_to_stop():
    process = without_reader("-c", UNREAD)
    assert process.stderr.read() == (
        "stopped by SIGPIPE, as nobody reads its output any more; the same command goes on from "
        "last.pt"
    )
    assert process.wait(60) == 0


PREPARE = """
import os, signal, threading, time
from training import stopping
stop = stopping.StopRequest()
"""
SECOND = """
stopping.SAME = 0.1
with stop.installed(), stop.deferred():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(30)
"""
STUCK = """
from datetime import timedelta
from torch.distributed import TCPStore
store = TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=30))
threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM]).start()
with stop.installed():
    store.get("what no other rank will set")
"""


@pytest.mark.parametrize("code", [SECOND, STUCK], ids=["second", "stuck"])
def test_a_signal_ends_a_process_at_once(code):
    began = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", PREPARE + code], capture_output=True, timeout=60
    )
    assert process.returncode == 128 + signal.SIGTERM, process.stderr
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    ("script", "number", "again"),
    [
        ("train.py", signal.SIGINT, "; give the same command again, training goes on from "),
        ("train.py", USR1, "; give the same command again, training goes on from "),
        ("eval.py", signal.SIGINT, "\n"),
    ],
)
def test_a_signal_in_the_imports_ends_in_a_sentence(script, number, again):
    process = subprocess.Popen(
        ["env", "--default-signal", sys.executable, script], stderr=subprocess.PIPE, text=True
    )
    status = Path("/proc", str(process.pid), "status")
    while not int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) >> USR1 - 1 & 1:
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert said.startswith(f"\nstopped by {number.name}{again}")
    assert said.count("\n") == 2


def stopping_rank(ranks, step):
    """`engine.train_step` in which a rank is asked to stop at that step."""

    def take(training, *arguments):
        if arguments[1:3] == step:
            training.ranks.stop.number = signal.SIGTERM
        return original(training, *arguments)

    original = engine.train_step
    return mock.patch.object(engine, "train_step", take)


@pytest.mark.parametrize("step", [(0, 1), (1, 0)], ids=["mid-epoch", "second epoch"])
def test_a_stopped_run_ends_as_if_it_had_not_been(config, tmp_path, step):
    whole = config(*OFTEN, runs="whole")
    train.train(whole, one_rank())
    halves = config(*OFTEN)
    with stopping_rank(one_rank(), step), pytest.raises(Stopped, match=r"last.pt: epoch"):
        train.train(halves, one_rank())
    folder = only_run(tmp_path / "runs")
    trained = [line for line in metrics(folder) if line["kind"] == "step"]
    assert (trained[-1]["epoch"], trained[-1]["step"]) == (step[0], step[1] + 1)
    train.train(halves, one_rank())
    assert_same_run(only_run(tmp_path / "whole"), folder)


def test_a_run_stops_in_an_evaluation_inside_an_epoch_and_does_it_first(config, tmp_path):
    often = ("train.evals_per_epoch=2", *OFTEN[1:])
    train.train(config(*often, runs="whole"), one_rank())
    ranks = one_rank()
    predict = evaluate.predict_later

    def stop_now(*arguments):
        ranks.stop.number = signal.SIGUSR1
        return predict(*arguments)

    with mock.patch.object(evaluate, "predict_later", stop_now), pytest.raises(Stopped):
        train.train(config(*often), ranks)
    folder = only_run(tmp_path / "runs")
    assert [line["kind"] for line in metrics(folder)][-1] == "step"
    train.train(config(*often), one_rank())
    assert_same_run(only_run(tmp_path / "whole"), folder)


@pytest.mark.parametrize("every", [1, 0], ids=["every epoch", "at the end"])
def test_a_run_stops_in_an_evaluation_and_does_it_first_when_it_goes_on(
    config, tmp_path, capsys, every
):
    often = (*OFTEN[1:], f"train.eval_every={every}")
    whole = config(*often, runs="whole")
    train.train(whole, one_rank())
    ranks = one_rank()
    predict = evaluate.predict_later

    def stop_now(*arguments):
        ranks.stop.number = signal.SIGUSR1
        return predict(*arguments)

    with mock.patch.object(evaluate, "predict_later", stop_now), pytest.raises(Stopped) as stopped:
        train.train(config(*often), ranks)
    assert stopped.value.status == 128 + signal.SIGUSR1
    folder = only_run(tmp_path / "runs")
    assert [line["kind"] for line in metrics(folder)][-1] == "epoch"
    train.train(config(*often), one_rank())
    done = (
        f"going on from {folder / 'last.pt'}: every epoch is trained, only the evaluation is left\n"
    )
    assert (done in capsys.readouterr().out) == (not every)
    assert_same_run(only_run(tmp_path / "whole"), folder)


def stop_on_one(ranks: Ranks, config):
    """Train on this rank, the second of which is asked to stop in its first step."""
    if ranks.rank == 1:
        with stopping_rank(ranks, (0, 0)):
            return _status(ranks, config)
    return _status(ranks, config)


def _status(ranks, config):
    try:
        train.train(config, ranks)
    except Stopped as stopped:
        return stopped.status, stopped.saved
    return 0, ""


@pytest.mark.dist
def test_ranks_stop_after_the_same_step(config, two_ranks):
    often = config(*OFTEN, "train.batch_frames=47")
    first, second = two_ranks.run(stop_on_one, often, timeout=180)
    assert first == second
    assert first[0] == 128 + signal.SIGTERM
    assert first[1].endswith("epoch 1, step 1")


@pytest.mark.parametrize(("parent", "child"), [(1, 0), (0, 1)], ids=["later", "before"])
def test_a_process_notices_that_its_parent_has_gone(parent, child):
    code = f"""
import os, sys, time
from training.stopping import STARTER, starter, watch_parent
os.environ[STARTER] = str(os.getpid())
if os.fork():
    time.sleep({parent})
    os._exit(0)  # the parent goes
time.sleep({child})
watch_parent(starter(), lambda: (print("alone", flush=True), os._exit(0)))
time.sleep(30)
"""
    began = time.monotonic()
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert output == "alone\n"
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    ("parent", "command", "found"),
    [(1, b"/sbin/init", 0), (1, b"/usr/bin/python torchrun", 1), (7, b"/sbin/init", 7)],
)
def test_a_rank_of_torchrun_sees_that_it_was_orphaned(monkeypatch, parent, command, found):
    monkeypatch.delenv(stopping.STARTER, raising=False)
    monkeypatch.setattr(stopping.os, "getppid", lambda: parent)
    monkeypatch.setattr(stopping.Path, "exists", lambda path: True)
    monkeypatch.setattr(stopping.Path, "read_bytes", lambda path: command)
    assert stopping.starter() == found


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no Linux")
@pytest.mark.parametrize(("wait", "ends"), [("time.sleep(0.1)", False), ("time.sleep(9)", True)])
def test_a_launcher_is_ended_only_if_it_stands_still(wait, ends):
    code = f"""
import subprocess, sys, time
end = "from training import stopping; stopping.GRACE = 1; stopping.end_launcher()"
subprocess.run([sys.executable, "-c", end], check=True)
until = time.monotonic() + 4
while time.monotonic() < until:
    {wait}
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert done.returncode == (-signal.SIGKILL if ends else 0)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_ends_a_data_worker(number):
    code = f"""
import os
from torch.utils.data import DataLoader
from training.stopping import StopRequest, apart
class Hit(list):
    def __getitem__(self, index):
        os.kill(os.getpid(), {number:d})
stop = StopRequest()
with stop.installed(), stop.deferred():
    loader = DataLoader(Hit([0]), None, num_workers=1, worker_init_fn=apart, timeout=9)
    next(iter(loader))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "exited unexpectedly" in done.stderr or "is killed by signal" in done.stderr


def test_a_fork_is_at_once_out_of_the_signals_to_the_group():
    code = """
import os
from training.stopping import fork_apart
fork_apart()
worker = os.fork()
if worker == 0:
    os._exit(os.getsid(0) != os.getpid())
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_handler_that_is_not_of_python_stays(monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    stop = StopRequest()
    with stop.installed():
        pass


def test_a_data_worker_ends_with_its_rank_though_nobody_reads_what_it_has_ready():
    code = """
import os, signal, time
from torch.utils.data import DataLoader
from training.stopping import apart
large = [bytes(10**6)] * 9
batches = iter(DataLoader(large, batch_size=None, num_workers=1, worker_init_fn=apart))
time.sleep(2)  # the pipe is full
os.kill(os.getpid(), signal.SIGKILL)
"""
    # It has the output of its rank, which ends with the last process that does.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_rank_that_is_alone_ends_within_its_grace(monkeypatch):
    ended = []
    monkeypatch.setattr(stopping, "GRACE", 0.1)
    monkeypatch.setattr(stopping.os, "_exit", ended.append)
    stop = StopRequest()
    with stop.installed(), stop.deferred():
        thread = threading.Thread(target=stopping.stop_soon)
        thread.start()
        thread.join()
        assert stop.number == signal.SIGTERM
    assert ended == [128 + signal.SIGTERM]

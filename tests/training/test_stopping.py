"""A signal saves the step under way on every rank; nothing outlives the launcher."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest import mock

import pytest

from tests.installation import torchrun
from tests.soak import MARK, marked
from tests.training.jobs import (
    PAGELESS,
    REPOSITORY,
    assert_same_run,
    checkpoint,
    metrics,
    only_run,
    overrides,
)
from training.stopping import StopRequest

OFTEN = ("train.eval_every=1", "train.log_every=1", "train.workers=1", "train.epochs=4")
USR1 = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
LAUNCHERS = {
    "python": [sys.executable, PAGELESS],
    "torchrun": [
        *(sys.executable, *torchrun(2)),
        *("--shutdown-timeout=600", "--signals-to-handle", USR1, PAGELESS),
    ],
}


def start(launcher: str, mark: str, lines: list[str]) -> subprocess.Popen:
    command = ["env", "--default-signal", f"{MARK}={mark}", *LAUNCHERS[launcher], *lines]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=pipe, text=True, start_new_session=True)


def wait_for(condition) -> None:
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_steps(runs: Path, steps: int) -> None:
    def there():
        files = [*runs.glob("*/metrics.jsonl")]
        return bool(files) and len(files[0].read_text().splitlines()) >= steps

    wait_for(there)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data_root):
    """The folder of a run that nobody disturbed, by its launcher."""

    @cache
    def train(launcher):
        runs = tmp_path_factory.mktemp(launcher)
        process = start(launcher, f"whole {launcher}", overrides(data_root, runs, *OFTEN))
        assert process.wait(600) == 0, process.stderr.read()
        return only_run(runs)

    return train


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize(
    ("launcher", "number"),
    [("python", "SIGINT"), *(("torchrun", n) for n in ("SIGTERM", "SIGUSR1"))],
)
def test_a_signal_saves_and_the_same_command_ends_as_if_there_had_been_none(
    command_line, tmp_path, whole, launcher, number
):
    expected, mark = whole(launcher), f"{launcher} {number} {tmp_path}"
    process = start(launcher, mark, command_line(*OFTEN))
    wait_for_steps(tmp_path / "runs", 3)
    process.send_signal(signal.Signals[number])
    said = process.communicate(timeout=600)[1]
    assert process.returncode == (128 + signal.Signals[number] if launcher == "python" else 1)
    assert f"stopped by {number}; the same command goes on from " in said
    wait_for(lambda: not marked(mark))
    folder = only_run(tmp_path / "runs")
    last, saved = metrics(folder)[-1], checkpoint(folder)["loader"]
    ended = (last["epoch"] + 1, 0)  # where that was the last step of its epoch
    assert (saved["epoch"] + 1, saved["step"]) in ((last["epoch"], last["step"]), ended)
    assert not (folder / "summary.json").exists()
    assert start(launcher, mark, command_line(*OFTEN)).wait(600) == 0
    assert_same_run(expected, folder)


def test_a_signal_is_heard_where_nobody_reads_that_it_is(monkeypatch):
    monkeypatch.setattr(os, "write", mock.Mock(side_effect=BrokenPipeError))
    monkeypatch.setattr(os, "_exit", mock.Mock(side_effect=SystemExit))
    with pytest.raises(SystemExit), (stop := StopRequest()).record_signals():
        signal.raise_signal(signal.SIGTERM)
    assert stop.signal_number == signal.SIGTERM
    os._exit.assert_called_once_with(128 + signal.SIGTERM)  # though heard after the last step


def test_a_second_ctrl_c_ends_without_waiting_for_the_step(monkeypatch):
    monkeypatch.setattr(os, "_exit", mock.Mock(side_effect=SystemExit))
    with suppress(SystemExit), StopRequest().record_signals():
        signal.raise_signal(signal.SIGINT)
        os._exit.assert_not_called()
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it goes on")
    os._exit.assert_called_once_with(130)


@pytest.mark.slow
@pytest.mark.dist
def test_no_process_outlives_its_torchrun(command_line, tmp_path):
    mark = f"killed {tmp_path}"
    process = start("torchrun", mark, command_line(*OFTEN))
    wait_for_steps(tmp_path / "runs", 2)
    process.kill()
    wait_for(lambda: not marked(mark))


@pytest.mark.slow
def test_a_signal_before_the_run_begins_ends_it_in_a_sentence(tmp_path):
    lines = ["experiment=smoke", f"dataset.root={tmp_path}/data", "dataset.train_videos=900"]
    command = [sys.executable, "train.py", *lines, f"run.root={tmp_path}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True) as process:
        assert "synthetic videos at" in process.stdout.readline()
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM
        assert "stopped by SIGTERM; the same command begins again" in process.stderr.read()


@pytest.mark.slow
def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path):
    lines = ["experiment=smoke", f"run.root={tmp_path}"]
    process = subprocess.Popen(
        [sys.executable, PAGELESS, *lines], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    process.stdout.close()
    assert process.wait() == 0
    assert only_run(tmp_path).joinpath("summary.json").exists()

"""Two machines, here two network namespaces: the link between them breaks, and comes back."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.jobs import REPOSITORY, assert_same_run, metrics, only_run

pytestmark = [pytest.mark.slow, pytest.mark.dist]

TIMEOUT = 10.0
"""``train.timeout``, in seconds."""
GRACE = 30.0
"""Seconds after it within which both sides have to be gone, launchers included."""
OPTIONS = (f"train.timeout={TIMEOUT}", "train.epochs=12", "train.checkpoint_every=2")
OPTIONS += ("train.log_every=1", "loader=naive", "run.name=two")
ports = itertools.count(29611)


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Machines:
    """Two network namespaces whose only way to each other is a cable, a veth pair."""

    def __init__(self) -> None:
        self.names = [f"bload{os.getpid()}{side}" for side in "ab"]
        self.ends = [f"bl{os.getpid()}{side}" for side in "ab"]
        self.addresses = ["10.213.7.1", "10.213.7.2"]

    def connect(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        one, other = self.ends
        ip("link", "add", one, "type", "veth", "peer", "name", other)
        for name, end, address in zip(self.names, self.ends, self.addresses, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def link(self, state: str) -> None:
        """Plug the cable in (``up``) or pull it out (``down``)."""
        ip("-n", self.names[0], "link", "set", self.ends[0], state)

    def start(self, port: int, logs: Path, *arguments: str) -> list[subprocess.Popen]:
        """Start torchrun on both; the first one is where they meet."""
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
        command += ["--nproc_per_node=1", "--rdzv-backend=c10d", "--rdzv-id=two"]
        command += [f"--rdzv-endpoint={self.addresses[0]}:{port}"]
        started = []
        for name, end, address in zip(self.names, self.ends, self.addresses, strict=True):
            words = ["ip", "netns", "exec", name, *command, f"--local-addr={address}"]
            words.append(f"--rdzv-conf=is_host={address == self.addresses[0]}")
            with (logs / f"{name[-1]}.log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [*words, "train.py", *arguments],
                        cwd=REPOSITORY,
                        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": end},
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        return started


@pytest.fixture
def machines() -> Iterator[Machines]:
    if not shutil.which("ip"):
        pytest.skip("there is no ip command (package iproute2)")
    machines = Machines()
    try:
        machines.connect()
    except OSError as error:
        machines.remove()
        pytest.skip(f"network namespaces need rights that this process lacks ({error})")
    yield machines
    machines.remove()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def wait_for_step(folder: Path, processes: list[subprocess.Popen]) -> None:
    """Wait until the second epoch has taken its second step."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if (
            all(process.poll() is None for process in processes)
            and (folder / "metrics.jsonl").exists()
        ):
            steps = [line for line in metrics(folder) if line["kind"] == "step"]
            if steps and (steps[-1]["epoch"], steps[-1]["step"]) >= (1, 2):
                return
        time.sleep(0.05)
    pytest.fail("the second epoch never began")


def ended(processes: list[subprocess.Popen], seconds: float) -> list[int]:
    """Exit statuses of processes, which have to end in time; those that do not are killed."""
    deadline = time.monotonic() + seconds
    try:
        return [process.wait(max(0.1, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        pytest.fail(f"after {seconds:.0f} s a side still hangs")
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, 9)


def test_a_cut_link_ends_both_sides_and_the_same_command_goes_on(
    machines, command_line, tmp_path, logs
):
    whole = machines.start(next(ports), logs, *command_line(*OPTIONS, runs="whole"))
    assert ended(whole, 300) == [0, 0], (logs / "a.log").read_text()

    job = command_line(*OPTIONS, runs="cut")
    processes = machines.start(next(ports), logs, *job)
    wait_for_step(tmp_path / "cut" / "two", processes)
    machines.link("down")
    cut = time.monotonic()
    assert all(ended(processes, TIMEOUT + GRACE))
    print(f"both sides ended {time.monotonic() - cut:.1f} s after the cut")
    for side, rank, other in (("a", 0, 1), ("b", 1, 0)):
        said = (logs / f"{side}.log").read_text()
        words = rf"error: rank {rank} at epoch .* has waited for rank {other}.*train.timeout"
        assert re.search(words, said), said

    machines.link("up")
    assert ended(machines.start(next(ports), logs, *job), 300) == [0, 0]
    assert "going on from" in (logs / "a.log").read_text()
    assert_same_run(only_run(tmp_path / "whole"), only_run(tmp_path / "cut"))

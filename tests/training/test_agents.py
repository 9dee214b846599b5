"""Two torchrun agents, started by the command line of examples/slurm.sh on this machine."""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.soak import MARK, marked
from tests.training.jobs import PAGELESS, REPOSITORY, assert_same_run, only_run

STEP = 7
"""Steps of the victim before it is killed: inside an epoch, after the first checkpoint."""
pytestmark = [pytest.mark.slow, pytest.mark.dist]


def start_agent(number, agents, nodes, port, folder, program, *arguments):
    """Start the agent of a node; a node alone has two ranks, of two nodes each has one.

    The first agent holds the store.
    """
    script = (REPOSITORY / "examples/slurm.sh").read_text()
    command = re.search(r"torchrun .*?(?=train\.py)", script, re.S)[0]
    variables = re.findall(r"^export (TORCH\w+=\d)", script, re.M)
    environment = {
        **os.environ,
        **dict(variable.split("=") for variable in variables),
        **{"SLURM_NNODES": nodes, "SLURM_JOB_ID": "1", "gpus": str(2 // agents)},
        **{"first": "localhost", "port": str(port), "OMP_NUM_THREADS": "1"},
        **{"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        **{"PYTHONPATH": str(REPOSITORY), "AGENT": str(number), MARK: str(folder)},
        # the defaults: ten minutes, and 30 s for further agents if there may be fewer
        "PET_RDZV_CONF": f"is_host={1 - number},join_timeout=20,last_call_timeout=5",
    }
    with (folder / f"agent{number}.log").open("a") as log:
        return subprocess.Popen(
            ["bash", "-c", f'exec {command} "$@"', "bash", program, *arguments],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


@pytest.fixture
def launch():
    """Run a program in a folder by agents, and return their exit statuses."""
    folders = []

    def run(folder, agents, *command, nodes=None):
        folders.append(folder)
        folder.mkdir(exist_ok=True)
        port = random.randrange(20000, 30000)  # as in slurm.sh, none that the system gives away
        common = agents, nodes or str(agents), port, folder, *command
        processes = [start_agent(number, *common) for number in range(agents)]
        return [process.wait(280) for process in processes]

    yield run
    for folder in folders:
        for pid in marked(str(folder)):
            os.kill(pid, signal.SIGKILL)


def test_what_is_killed_starts_again_and_ends_as_one_undisturbed_agent(
    launch, command_line, tmp_path
):
    """A rank by itself; an agent with its rank only with the other agent, which ends meanwhile."""
    often = "train.eval_every=1", "train.log_every=1", "train.checkpoint_minutes=0"
    mark = tmp_path / "mark"
    wrapped = [str(Path(__file__).with_name("killed.py")), str(mark), str(STEP), "1"]

    def command(name, victim):
        return [*wrapped, victim, PAGELESS, *command_line(*often, runs=f"{name}/runs")]

    mark.touch()  # nothing is killed
    assert launch(tmp_path / "whole", 1, *command("whole", "rank")) == [0]
    for victim in ("rank", "agent"):
        mark.unlink()
        statuses = launch(tmp_path / victim, 2, *command(victim, victim))
        assert mark.exists()
        if victim == "agent":
            assert statuses == [1, -signal.SIGKILL]
            statuses = launch(tmp_path / victim, 2, *command(victim, victim))
        assert statuses == [0, 0]
        assert_same_run(only_run(tmp_path / "whole/runs"), only_run(tmp_path / victim / "runs"))


def test_an_agent_goes_on_alone_when_the_other_is_lost_for_good(launch, tmp_path):
    example = str(REPOSITORY / "examples/trainers/ddp.py")
    wrapped = [str(Path(__file__).with_name("killed.py")), str(tmp_path / "mark"), "5"]
    folder = tmp_path / "shrunk"
    statuses = launch(folder, 2, *wrapped, "1", "agent", example, nodes="1:2")
    assert statuses == [0, -signal.SIGKILL]
    said = (folder / "agent0.log").read_text()
    assert "epoch 0 goes on after step 4 with 1 block per step instead of 2" in said
    position = torch.load(folder / "ddp.pt")["loader"]
    assert (position["epoch"], position["plan"]["blocks per step"]) == (7, 1)

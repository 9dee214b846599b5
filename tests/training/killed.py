"""Runs a program on a rank and kills that rank once: ``MARK STEP AGENT rank|agent PROGRAM ...``.

It happens after that step, on the agent with that number (AGENT in the environment), and not if the
file MARK exists, which is made first. With ``agent``, torchrun's agent is killed before its rank.
"""

import os
import runpy
import signal
import sys
from itertools import count
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def kill_at(step: int, mark: Path, victim: str) -> None:
    steps = count(1)

    def kill(*_) -> None:
        if next(steps) == step and not mark.exists():
            mark.touch()
            if victim == "agent":
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(kill)


if __name__ == "__main__":
    mark, step, agent, victim, *sys.argv = sys.argv[1:]
    if os.environ["AGENT"] == agent:
        kill_at(int(step), Path(mark), victim)
    torch.manual_seed(0)
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")

"""What ranks do in the tests of `launch`; apart, so that a rank imports little."""

import os
import signal
import time
from pathlib import Path

import torch

from bload.packers import make_plan
from experiments.ranks import start_ranks


def note_who(config):
    with start_ranks("cpu") as ranks:
        total = ranks.sum(torch.tensor([1 + ranks.rank])).item()
        text = f"{ranks.world_size} {total} {os.environ['OMP_NUM_THREADS']}"
        Path(config["folder"], str(ranks.rank)).write_text(text)


def fail(config):
    """Rank `config["rank"]` fails as told, the others wait for it."""
    with start_ranks("cpu") as ranks:
        if ranks.rank == config["rank"]:
            match config["how"]:
                case "subclass of InputError":
                    make_plan([3, 50], "bload", 20, 0, 0)
                case "signal":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "status":
                    os._exit(7)
                case "bug":
                    raise KeyError("nobody foresaw this")
        ranks.barrier()
        time.sleep(60)

"""Runs an example on two ranks and writes down what they train.

    recorded.py EXAMPLE FOLDER BATCHES

It runs in FOLDER/whole; in FOLDER/killed, where every rank ends at once after so many batches, as
one that is killed; and goes on in copies of that: in FOLDER/resumed, and in FOLDER/elastic on three
ranks. Ranks write a line per batch: its sequences, and a digest of the parameters before it. They
are forked from this process, which has imported what the example does, since that takes longest.
"""

import gc
import hashlib
import importlib
import json
import os
import re
import runpy
import shutil
import socket
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.modules.module import register_module_forward_pre_hook

from bload import Batch


def whole(value: torch.Tensor) -> torch.Tensor:
    """The tensor; of one that is sharded over ranks, all of it."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def record(example: Path, folder: Path, stop: int | None) -> None:
    rank = os.environ["RANK"]
    done: list[Batch] = []
    with (folder / f"rank{rank}.jsonl").open("w") as file:

        def write(module, arguments):
            batch = arguments[0] if arguments else None
            # Wrappers of the module, which have no parameters of their own, get the batch too;
            # Lightning calls the module itself twice.
            if not (isinstance(batch, Batch) and hasattr(module, "gru") and module.training):
                return
            if done and done[-1] is batch:
                return
            if len(done) == stop:
                os._exit(3)
            done.append(batch)
            values = b"".join(whole(p).detach().numpy().tobytes() for p in module.parameters())
            sequences = batch.sequence_BT[batch.start_BT].tolist()
            line = {"sequences": sequences, "parameters": hashlib.sha256(values).hexdigest()}
            print(json.dumps(line), file=file, flush=True)

        register_module_forward_pre_hook(write)
        dist.destroy_process_group = lambda *_: None  # the weights may be sharded
        torch.manual_seed(0)
        model = runpy.run_path(str(example), run_name="__main__")["model"]
    state = model.state_dict()
    weights = {name.removeprefix("module."): whole(value) for name, value in state.items()}
    torch.save(weights, folder / f"rank{rank}.pt")


def launch(example: Path, folder: Path, stop: int | None = None, count: int = 2) -> list[int]:
    """Run the example on ranks, with the variables of torchrun; return their exit codes."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    ranks = []
    for rank in map(str, range(count)):
        ranks.append(os.fork())
        if not ranks[-1]:
            os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": "0"}
            os.environ |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
            os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
            os.environ |= {"TORCHELASTIC_RUN_ID": "forked"}
            os.chdir(folder)
            try:
                record(example, folder, stop)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    return [os.waitstatus_to_exitcode(os.waitpid(rank, 0)[1]) for rank in ranks]


if __name__ == "__main__":
    example, folder = map(Path, sys.argv[1:3])
    sys.path.insert(0, str(example.parent))
    import torch._dynamo  # as optimisers do

    for name in re.findall(r"^(?:from|import) (\S+)", example.read_text(), re.M):
        importlib.import_module(name)
    gc.freeze()
    assert launch(example, folder / "whole") == [0, 0]
    assert launch(example, folder / "killed", int(sys.argv[3])) == [3, 3]
    for name, count in (("resumed", 2), ("elastic", 3)):
        if count == 2 or "lightning" not in example.name:  # which keeps the old length
            shutil.copytree(folder / "killed", folder / name)
            assert launch(example, folder / name, count=count) == [0] * count

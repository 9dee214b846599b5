"""Runs an example on one rank and writes down what it trains: ``EXAMPLE FOLDER [BATCHES]``.

A line per batch: its sequences, and a digest of the parameters before it. With BATCHES, the process
ends at once after so many, as one that is killed.
"""

import hashlib
import json
import os
import runpy
import sys
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
            known = done and done[-1] is batch
            if not isinstance(batch, Batch) or not hasattr(module, "gru") or known:
                return
            if not module.training:
                return
            if len(done) == stop:
                os._exit(3)
            done.append(batch)
            values = b"".join(whole(p).detach().numpy().tobytes() for p in module.parameters())
            sequences = batch.sequence_BT[batch.start_BT].tolist()
            line = {"sequences": sequences, "parameters": hashlib.sha256(values).hexdigest()}
            print(json.dumps(line), file=file, flush=True)

        register_module_forward_pre_hook(write)
        dist.destroy_process_group = lambda: None  # the weights may be sharded
        torch.manual_seed(0)
        sys.path.insert(0, str(example.parent))
        model = runpy.run_path(str(example), run_name="__main__")["model"]
    state = model.state_dict()
    weights = {name.removeprefix("module."): whole(value) for name, value in state.items()}
    torch.save(weights, folder / f"rank{rank}.pt")


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else None)

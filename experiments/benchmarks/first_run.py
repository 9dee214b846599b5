"""The first run, ``torchrun train.py loader=bload``, in a folder of its own: seconds and recall.

The data are made in it too. Nothing else should run meanwhile: it takes what cores there are.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bload import InputError
from experiments.benchmarks.part import Part, Rows
from training.provenance import REPOSITORY

SMALL = ["dataset.train_videos=8", "dataset.test_videos=4", "dataset.image_size=32"]
RECALL = "with/recall@20"
OBSERVER = "memoryless/recall@20"


def measure(quick: bool) -> Rows:
    """One row, of seed 0."""
    command = [sys.executable, "-m", "torch.distributed.run", str(REPOSITORY / "train.py")]
    command += ["loader=bload", *(["train.epochs=1", *SMALL] if quick else [])]
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode:
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise InputError(f"train.py ended with status {done.returncode}: {' '.join(last)}")
        (path,) = Path(folder, "runs").glob("*/summary.json")
        summary = json.loads(path.read_text())
    recall, observer = (100 * summary[name] for name in (RECALL, OBSERVER))
    return [[seconds, recall, observer, recall - observer]]


FIRST_RUN = Part(
    ("s", "Recall@20", "ideal observer without memory", "above it"),
    (".0f", ".1f", ".1f", ".1f"),
    measure,
)

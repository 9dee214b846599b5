"""transformers' `Trainer`: tokens a second and loss, by its own samplers and by blocks.

    python -m venv /tmp/hf && /tmp/hf/bin/pip install -e . transformers accelerate
    PACKERS=/tmp/hf/bin/python python -m experiments.benchmarks trainer

All ways train an epoch, and so equally many tokens: `experiments/benchmarks/trainer_ways.py`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from experiments.benchmarks import Row, Table

CODE = ("experiments/benchmarks/trainer_ways.py", "bload/batch", "bload/loading", "bload/packing")


def measure(quick: bool) -> Iterator[Row]:
    """Yield rows of one rank, of two, and of counts."""
    for ranks in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            command = [os.environ.get("PACKERS", sys.executable), "-m", "torch.distributed.run"]
            command += ["--standalone", f"--nproc_per_node={ranks}"]
            rows, ways = Path(folder, "rows"), Path(__file__).with_name("trainer_ways.py")
            subprocess.run([*command, ways, rows, str(int(quick))], check=True, cwd=folder)
            yield from json.loads(rows.read_text())


TRAINED = {"way": "", "ranks": ".0f", "steps": ",.0f", "tokens/s": ",.0f", "loss": ".3f"}
COUNTED = {"way": "", "empty slots, %": ".2f", "slots": ".3f"}
TABLES = {
    "trainer": Table("One epoch, means over seeds:", TRAINED, by=("way", "ranks")),
    "counted": Table("Action Genome on 8 ranks, slots computed or waited for per frame:", COUNTED),
}

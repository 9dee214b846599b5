"""Peak memory and time of training for shares of recomputed pictures, and for memory budgets.

    OMP_NUM_THREADS=1 python -m experiments.benchmarks.memory_budget                # minutes
    OMP_NUM_THREADS=1 python -m experiments.benchmarks.memory_budget model=dds_tiny

Every row is a run of train.py of two epochs in a process of its own; further arguments are
overrides for it. Time is that of the second epoch, and of as many rounds the least, since other
jobs only ever add to it. Overhead is time beyond that of `none`, in shares of what `backbone` adds.
Budgets lie evenly between the peaks of `backbone` and of `none`, and `auto` has to meet them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tabulate import tabulate

REPOSITORY = Path(__file__).resolve().parents[2]
SHARES = ("none", "0.25", "0.5", "0.75", "backbone")
BUDGETS = (0.2, 0.5, 0.8)
JOB = (
    *("model=dds", "loader=bload", "dataset.train_videos=4", "dataset.test_videos=1"),
    *("dataset.image_size=64", "train.epochs=2", "train.workers=0", "train.device=cpu"),
    *("run.resume=never", "wandb.mode=disabled"),
)


def run(overrides: list[str]) -> tuple[float, float]:
    """Seconds of the last epoch and peak MiB of a run of train.py."""
    with tempfile.TemporaryDirectory() as root:
        job = [*JOB, f"run.root={root}", "run.name=run", *overrides]
        command = [sys.executable, "train.py", *job]
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(command)}\n{ended.stderr}")
        decision = [line for line in ended.stdout.splitlines() if "(model.checkpoint" in line]
        print(*decision, sep="\n", flush=True)
        lines = Path(root, "run", "metrics.jsonl").read_text().splitlines()
        epochs = [one for one in map(json.loads, lines) if one["kind"] == "epoch"]
        return epochs[-1]["seconds"], max(one["peak_memory_mib"] for one in epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory and time by share and by budget.")
    parser.add_argument("--rounds", type=int, default=3, help="runs of every share")
    parser.add_argument("overrides", nargs="*", help="of train.py")
    arguments = parser.parse_args()

    runs: dict[str, list[tuple[float, float]]] = {share: [] for share in SHARES}
    for _ in range(arguments.rounds):  # interleaved, so that what else runs here meets all alike
        for share, measured in runs.items():
            measured.append(run([*arguments.overrides, f"model.checkpoint={share}"]))
    seconds = {share: min(one[0] for one in measured) for share, measured in runs.items()}
    peaks = {share: max(one[1] for one in measured) for share, measured in runs.items()}
    full = seconds["backbone"] - seconds["none"]
    rows: list[Any] = [
        (share, seconds[share], (seconds[share] - seconds["none"]) / full, peaks[share])
        for share in SHARES
    ]
    print(tabulate(rows, ("share", "s", "overhead", "peak MiB"), "plain", floatfmt=".2f"))
    rows = []
    for place in BUDGETS:
        budget = peaks["backbone"] + place * (peaks["none"] - peaks["backbone"])
        auto = [*arguments.overrides, "model.checkpoint=auto", f"model.memory={budget / 2**10}"]
        peak = run(auto)[1]
        rows.append((budget, peak, peak / budget))
    print(tabulate(rows, ("budget MiB", "peak MiB", "peak / budget"), "plain", floatfmt=".3f"))


if __name__ == "__main__":
    main()

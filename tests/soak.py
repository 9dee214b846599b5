"""A soak: runs are ended at random, go on, and have to end as if nothing had happened.

    python -m tests.soak --count 100 --seed 0

Every trial is a run with a data worker per rank, of two ranks under ``torchrun`` or of one under
``python``. One to three times a signal hits, at a random moment, a random process of it: torchrun's
agent, a rank or a data worker. 15 s later none of its processes may be
left. Then the same command is given again. At the end weights, optimiser and position have to be
those of a run that nobody disturbed, bit by bit, and every line of ``metrics.jsonl`` has to be
there once. The exit status is 0 if all trials passed.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from tests.installation import torchrun
from tests.training.jobs import assert_same_state, metrics, only_run

MARK = "BLOAD_SOAK"
"""Environment variable that all processes of a trial inherit."""
LEFT = 15.0
"""Seconds after which no process of a run that was hit may be left."""
SIGNALS = {signal.SIGKILL: 3, signal.SIGTERM: 1, signal.SIGINT: 1, signal.SIGUSR1: 1}
"""Signals and how often each is drawn, in proportion."""
SMALL = (
    *("dataset.train_videos=8", "dataset.test_videos=1", "dataset.validation_videos=2"),
    *("dataset.final_videos=2", "dataset.image_size=32", "model.width=16"),
    *("train.epochs=5", "train.batch_slots=94", "train.checkpoint_minutes=0", "train.log_every=1"),
    *("train.eval_every=1", "train.workers=1", "train.device=cpu", "wandb.mode=disabled"),
)
UNDISTURBED = "as if undisturbed"
STARTS = ("python", "torchrun")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=20, help="hits, at most three a run")
    parser.add_argument("--seed", type=int, default=0, help="of moments, victims and signals")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bload_soak_") as name:
        folder = Path(name)
        start(folder, folder / "data" / "runs", "python", "data").wait()  # makes the data
        seconds, expected = {}, {}
        for how in STARTS:
            began, runs = time.monotonic(), folder / f"by_{how}"
            start(folder, runs, how, how).wait()
            seconds[how], expected[how] = time.monotonic() - began, only_run(runs)
        rows: list[dict[str, Any]] = []
        while sum(row["hits"] for row in rows) < options.count:
            rng = random.Random(f"{options.seed} {len(rows)}")
            how = rng.choice(STARTS)
            rows.append(run_trial(folder, len(rows), how, rng, seconds[how], expected[how]))
            print(f"trial {len(rows)}: {rows[-1]}", flush=True)
    print(tabulate(rows, headers="keys"))
    failed = [row for row in rows if row["result"] != UNDISTURBED]
    hits, passed = sum(row["hits"] for row in rows), len(rows) - len(failed)
    each = Counter(hit for row in rows for hit in row["hit by"].split("; ") if hit)
    print("\n" + tabulate(sorted(each.items()), headers=("hit", "times")))
    print(f"\n{passed} of {len(rows)} runs, with {hits} hits, ended as if undisturbed")
    sys.exit(bool(failed))


def run_trial(
    folder: Path, trial: int, how: str, rng: random.Random, seconds: float, expected: Path
) -> dict[str, Any]:
    """Disturb one run one to three times, let it end, and compare it.

    Args:
        how: as in `start`.
        seconds: that an undisturbed run takes.
        expected: folder of an undisturbed run.
    """
    runs, mark = folder / f"runs{trial}", f"{os.getpid()}-{trial}"
    hits: list[str] = []
    result = ""
    for _ in range(rng.randint(1, 3)):
        process = start(folder, runs, how, mark)
        time.sleep(rng.uniform(0.02, 0.9) * seconds)
        sent = ""
        while process.poll() is None and not sent:
            sent = hit(mark, rng)
        if not sent:  # what was left to train is done
            break
        hits.append(sent)
        if left := ended_or_left(process, mark, time.monotonic() + LEFT):
            result = f"left after {LEFT:.0f} s: {', '.join(left)}"
    if status := start(folder, runs, how, mark).wait():
        result = result or f"the last start ended with {status}"
    else:
        result = result or differences(only_run(runs), expected)
    if result == UNDISTURBED:
        shutil.rmtree(runs)
    else:
        print((folder / f"{mark}.log").read_text())
    return {"started by": how, "hits": len(hits), "hit by": "; ".join(hits), "result": result}


def hit(mark: str, rng: random.Random) -> str:
    """Send a random signal to a random process of a run; say what, or nothing if it had ended."""
    family = marked(mark)
    if not family:
        return ""
    number = rng.choices(list(SIGNALS), weights=list(SIGNALS.values()))[0]
    kind = rng.choice(sorted({*family.values()}))
    try:
        os.kill(rng.choice([pid for pid, role in family.items() if role == kind]), number)
    except ProcessLookupError:
        return ""
    return f"{number.name} to {kind}"


def ended_or_left(process: subprocess.Popen, mark: str, deadline: float) -> list[str]:
    """Processes of a run that are still there at the deadline; they are killed then."""
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return list(left.values())


def start(folder: Path, runs: Path, how: str, mark: str) -> subprocess.Popen:
    """Start the training command in a session of its own, its processes marked.

    Args:
        how: ``python``, or ``torchrun`` for two ranks.
    """
    common = [f"dataset.root={folder / 'data'}", f"run.root={runs}", *SMALL]
    command = [sys.executable, "train.py", *common]
    if how == "torchrun":
        signals = ["--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"]
        command = [sys.executable, *torchrun(2), *signals, "train.py", *common]
    log = (folder / f"{mark}.log").open("a")
    return subprocess.Popen(
        ["env", "--default-signal", *command],  # jobs in a shell's background ignore SIGINT
        cwd=Path(__file__).parents[1],
        env={**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def marked(mark: str) -> dict[int, str]:
    """Processes of a trial: number -> what it is."""
    found: dict[int, tuple[str, int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}\0" not in (entry / "environ").read_bytes().decode(errors="replace"):
                continue
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if state != "Z" and line:
            found[int(entry.name)] = line, int(parent)
    return {pid: _role(pid, found) for pid in found}


def _role(pid: int, processes: dict[int, tuple[str, int]]) -> str:
    """What a process is, by its command line and what its parent is."""
    if pid not in processes:
        return ""
    line, parent = processes[pid]
    if "torch.distributed.run" in line:
        return "torchrun"
    if "train.py" not in line:
        return "helper"
    return "data worker" if _role(parent, processes) == "rank" else "rank"


def differences(found: Path, expected: Path) -> str:
    """A sentence on what differs from an undisturbed run: state, position or figures."""
    for name in ("last.pt", "best.pt"):
        saved, wanted = (torch.load(run / name, weights_only=True) for run in (found, expected))
        for part in ("model", "optimisers", "loader", "epoch"):
            try:
                assert_same_state(saved[part], wanted[part])
            except AssertionError:
                return f"differs: {part} of {name}"
    return "differs: metrics.jsonl" if metrics(found) != metrics(expected) else UNDISTURBED


if __name__ == "__main__":
    main()

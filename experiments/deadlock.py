"""The paper's starting point: ranks with unevenly many steps wait for ever.

    python -m experiments.deadlock            # half a minute on two CPU cores, 5 s of it waiting
    python -m experiments.deadlock --quick    # fewer sequences, 15 s

Two ranks on the CPU (gloo) train a small GRU for an epoch on feature sequences with Action
Genome's lengths: with plain DDP and a clip of one sequence per step, the same with torch's
``Join``, with each of the loaders, and with plain DDP where the rank that is done exits.
Expect plain DDP to time out, to fail where the rank that is done exits, and everything else to
finish (results/deadlock.txt); the exit status is 0 if it does. The rows are written to
runs/deadlock/deadlock.json.

DDP averages gradients in the backward pass, so a rank that has one step more than the others waits
there. Gloo gives up after the process group's timeout, 30 minutes unless set; here it is seconds,
and a parent kills ranks that stand still for longer than that. With nccl (from PyTorch's
documentation of ``init_process_group``, not measured) the timeout is 10 minutes, after which
collectives are aborted and the process crashes.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from bload import PACKERS, BlockSampler, InputError, action_genome_lengths
from experiments.measured import measure
from experiments.rank_pair import RANKS, RankOutcome, run_pair
from experiments.sequences import block_epoch, clips, uneven_epoch

FULL = {"videos": 200, "clip": 16, "batch_frames": 376, "timeout": 5.0, "seed": 0}
QUICK = {"videos": 24, "batch_frames": 188, "timeout": 3.0}
TEXTS = {
    "videos": "sequences, with lengths drawn from Action Genome's",
    "clip": "frames per step of plain DDP",
    "batch_frames": "frames per rank and step of a loader",
    "timeout": "seconds that a rank of plain DDP waits for the other",
    "seed": "of the drawn lengths",
}
PATIENCE = 30.0
"""Gloo's timeout in seconds where nobody should run into it, on a busy machine either."""
GRACE = 5.0
"""Seconds beyond gloo's timeout that ranks may stand still before they are killed."""


def run(videos: int, clip: int, batch_frames: int, timeout: float, seed: int) -> dict[str, Any]:
    """Run every row, print the table and return it; `TEXTS` says what the arguments are.

    Raises:
        InputError: an option is out of range, or the ranks happen to have equally many clips.
    """
    if videos < RANKS or clip < 1 or timeout < 1:
        raise InputError(
            f"--videos is {videos}, --clip {clip} and --timeout {timeout:g}; give at least "
            f"{RANKS}, 1 and 1"
        )
    lengths = np.random.default_rng(seed).choice(action_genome_lengths(), videos)
    if batch_frames < lengths.max():
        raise InputError(
            f"--batch-frames is {batch_frames} but the longest sequence has {lengths.max()} "
            "frames; give at least as many"
        )
    steps = [len(clips(lengths.tolist(), clip, rank)) for rank in range(RANKS)]
    if len({*steps}) == 1:
        raise InputError(
            f"both ranks happen to have {steps[0]} clips, which shows nothing; give another --seed"
        )
    print(
        f"{RANKS} ranks, gloo, CPU: {videos} sequences of {lengths.min()} to {lengths.max()} "
        f"frames, {lengths.sum():,} in all; under plain DDP gloo's timeout is {timeout:g} s\n",
        flush=True,
    )
    jobs = [*_jobs(lengths, clip, batch_frames, max(steps) - min(steps))]
    rows = []
    with tempfile.TemporaryDirectory() as meetings:
        for number, (row, job) in enumerate(tqdm(jobs, unit="row", leave=False, disable=None)):
            patience = timeout if row["expected"] == "timed out" else PATIENCE
            job = partial(job, meeting=Path(meetings, str(number)), patience=patience)
            rows.append(row | _ended(row["says"], run_pair(job, patience + GRACE)))
    columns = ("what", "loader", "ended", "steps", "seconds", "says")
    cells = [[row[name] for name in columns] for row in rows]
    print(tabulate(cells, columns, floatfmt=".1f", maxcolwidths=[None] * 5 + [60]))
    wrong = [row for row in rows if row["ended"] != row["expected"]]
    for row in wrong:
        print("\n{what}, {loader}: {ended}, where {expected} was expected".format(**row))
    if not wrong:
        print("\nEvery row ended as it should.")
    return {"rows": rows, "as_expected": not wrong, "frames": int(lengths.sum())}


def _jobs(
    lengths: np.ndarray, clip: int, batch_frames: int, apart: int
) -> Iterator[tuple[dict[str, Any], Callable]]:
    """The head of each row, with what to say if it finishes, and its epoch."""

    def row(what: str, loader: str, expected: str, says: str = "") -> dict[str, Any]:
        return {"what": what, "loader": loader, "expected": expected, "says": says}

    frames = tuple(lengths.tolist())
    uneven = partial(uneven_epoch, lengths=frames, clip=clip)
    yield row("plain DDP", "uneven", "timed out"), uneven
    says = (
        f"one rank shadowed {apart} steps of the other; in these the gradient of one rank is "
        "divided by two, so a frame counts as in the others"
    )
    yield row("DDP with Join", "uneven", "finished", says), partial(uneven, join=True)
    for loader in PACKERS:
        sampler = BlockSampler(lengths, loader, batch_frames=batch_frames, rank=0, world_size=RANKS)
        counted = sampler.account
        says = f"{counted.padding:,} padded, {counted.deleted:,} deleted, {counted.filler:,} filler"
        job = partial(block_epoch, lengths=frames, loader=loader, batch_frames=batch_frames)
        yield row("DDP, blocks", loader, "finished", says), job
    yield row("DDP, exits when done", "uneven", "failed"), partial(uneven, leave=True)


def _ended(says: str, outcomes: list[RankOutcome]) -> dict[str, Any]:
    """The end of an epoch (finished, timed out or failed), with the steps that each rank did."""
    late = any(one.ended == "running" or "timed out" in one.message.lower() for one in outcomes)
    finished = all(one.ended == "finished" for one in outcomes)
    trouble = "; ".join(f"rank {rank} {_trouble(one)}" for rank, one in enumerate(outcomes))
    return {
        "ended": "finished" if finished else "timed out" if late else "failed",
        "steps": [outcome.steps for outcome in outcomes],
        "planned": [outcome.planned for outcome in outcomes],
        "seconds": round(max(outcome.seconds for outcome in outcomes), 2),
        "says": says if finished else trouble,
    }


def _trouble(outcome: RankOutcome) -> str:
    """Describe the end of the epoch on one rank."""
    if outcome.ended == "finished":
        return f"was done after its {outcome.steps} steps"
    # An error of gloo without the place in its source and without advice.
    message = re.sub(r"^\[\S+\] ", "", " ".join(outcome.message.split())).split(". ")[0]
    late = "timed out" in message.lower()
    how = {
        "running": f"was killed after {outcome.seconds:.0f} s",
        "gone": "exited without a message",
        "failed": f"{'waited for the other' if late else 'failed'}: {message}",
    }
    return f"in step {outcome.steps + 1} of {outcome.planned} {how[outcome.ended]}"


def main() -> None:
    measure("deadlock", __doc__, run, FULL, QUICK, TEXTS)


if __name__ == "__main__":
    main()

"""What the paper starts from: ranks with unevenly many steps wait for ever, and what ends it.

    python -m experiments.deadlock            # half a minute on two CPU cores, 5 s of it waiting
    python -m experiments.deadlock --quick    # fewer sequences, 15 s

Two ranks on the CPU (gloo) train a small GRU for an epoch on feature sequences with Action
Genome's lengths: with plain DDP and a clip of one sequence per step, the same with torch's
``Join``, with each of the five loaders, and with plain DDP where the rank that is done exits.
Expect plain DDP to time out, to fail where the rank that is done exits, and everything else to
finish (results/deadlock.txt); the exit status is 0 if it does. The rows are written to
runs/deadlock/deadlock.json.

DDP averages gradients in the backward pass, so a rank that has one step more than the others waits
there. Gloo gives up after the process group's timeout, 30 minutes unless set; here it is seconds,
and a parent kills ranks that stand still for longer than that. With nccl (from PyTorch's
documentation of ``init_process_group``, not measured) the timeout is 10 minutes, after which
collectives are aborted and the process crashes.
"""

import argparse
import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from bload import PACKERS, InputError, account, action_genome_lengths, make_plan
from experiments.measured import measure
from experiments.rank_pair import RANKS, RankOutcome, run_pair
from experiments.sequences import block_epoch, clips, uneven_epoch

FULL = {"videos": 200, "clip": 16, "batch_frames": 376, "timeout": 5.0, "seed": 0}
QUICK = {"videos": 24, "batch_frames": 188, "timeout": 3.0}
PATIENCE = 30.0
"""Gloo's timeout in seconds where nobody should run into it, on a busy machine either."""
GRACE = 5.0
"""Seconds beyond gloo's timeout that ranks may stand still before they are killed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--videos", type=int, help="sequences")
    parser.add_argument("--clip", type=int, help="frames per step of plain DDP")
    parser.add_argument("--batch-frames", type=int, help="frames per rank and step of a loader")
    parser.add_argument("--timeout", type=float, help="seconds that a rank of plain DDP waits")
    parser.add_argument("--seed", type=int, help="of the drawn lengths")
    measure("deadlock", parser, run, FULL, QUICK)


def run(videos: int, clip: int, batch_frames: int, timeout: float, seed: int) -> dict[str, Any]:
    """Run every row, print the table and return it.

    Args:
        videos: sequences, with lengths drawn from Action Genome's.
        clip: frames per step of plain DDP.
        batch_frames: frames that a rank works through in a step of a loader.
        timeout: seconds that a rank waits for another.

    Raises:
        InputError: an option is out of range, or the ranks happen to have equally many clips.
    """
    lengths = np.random.default_rng(seed).choice(action_genome_lengths(), max(videos, 0))
    _check(lengths, clip, batch_frames, timeout)
    print(
        f"{RANKS} ranks, gloo, CPU: {videos} sequences of {lengths.min()} to {lengths.max()} "
        f"frames, {lengths.sum():,} in all; under plain DDP gloo's timeout is {timeout:g} s\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as meetings:
        todo = _rows(Path(meetings), lengths, clip, batch_frames, timeout)
        rows = list(tqdm(todo, total=3 + len(PACKERS), unit="row", leave=False, disable=None))
    columns = ("what", "loader", "ended", "steps", "seconds", "says")
    cells = [[row[name] for name in columns] for row in rows]
    print(tabulate(cells, columns, floatfmt=".1f", maxcolwidths=[None] * 5 + [60]))
    wrong = [row for row in rows if row["ended"] != row["expected"]]
    for row in wrong:
        print("\n{what}, {loader}: {ended}, where {expected} was expected".format(**row))
    if not wrong:
        print("\nEvery row ended as it should.")
    return {
        "rows": rows,
        "as_expected": not wrong,
        "frames": int(lengths.sum()),
    }


def _check(lengths: np.ndarray, clip: int, batch_frames: int, timeout: float) -> None:
    for name, value, least in (
        ("videos", len(lengths), RANKS),
        ("clip", clip, 1),
        ("timeout", timeout, 1),
    ):
        if value < least:
            raise InputError(f"--{name} is {value:g}; give at least {least}")
    if batch_frames < lengths.max():
        raise InputError(
            f"--batch-frames is {batch_frames} but the longest sequence has {lengths.max()} "
            "frames; give at least as many"
        )
    steps = {len(clips(lengths.tolist(), clip, rank)) for rank in range(RANKS)}
    if len(steps) == 1:
        raise InputError(
            f"both ranks happen to have {steps.pop()} clips, which shows nothing; give another "
            "--seed"
        )


def _rows(
    meetings: Path, lengths: np.ndarray, clip: int, batch_frames: int, timeout: float
) -> Iterator[dict[str, Any]]:
    """Run the rows one after another."""
    frames = tuple(lengths.tolist())
    uneven = partial(uneven_epoch, lengths=frames, clip=clip, patience=PATIENCE)
    steps = [len(clips(frames, clip, rank)) for rank in range(RANKS)]
    few, many = int(np.argmin(steps)), int(np.argmax(steps))

    job = partial(uneven, meeting=meetings / "plain", patience=timeout)
    yield _row("plain DDP", "uneven", "timed out", run_pair(job, timeout + GRACE))

    says = (
        f"rank {few} shadowed {steps[many] - steps[few]} steps of rank {many}; in these the "
        "gradient of one rank is divided by two, so a frame counts as in the others"
    )
    job = partial(uneven, meeting=meetings / "join", join=True)
    yield _row("DDP with Join", "uneven", "finished", run_pair(job, PATIENCE + GRACE), says)

    for loader in PACKERS:
        plan = make_plan(lengths, loader)
        counted = account(plan, RANKS * (batch_frames // plan.t_max))
        says = f"{counted.padding:,} padded, {counted.deleted:,} deleted"
        if counted.filler:
            says += f", {counted.filler:,} slots to fill the last step"
        blocks = partial(
            block_epoch,
            lengths=frames,
            loader=loader,
            batch_frames=batch_frames,
            meeting=meetings / loader,
            patience=PATIENCE,
        )
        yield _row("DDP, blocks", loader, "finished", run_pair(blocks, PATIENCE + GRACE), says)

    job = partial(uneven, meeting=meetings / "leaving", leave=True)
    yield _row("DDP, exits when done", "uneven", "failed", run_pair(job, PATIENCE + GRACE))


def _row(
    what: str, loader: str, expected: str, outcomes: list[RankOutcome], says: str = ""
) -> dict[str, Any]:
    """How one epoch ended (finished, timed out or failed), with the steps that each rank did."""
    ended = _ended(outcomes)
    return {
        "what": what,
        "loader": loader,
        "ended": ended,
        "expected": expected,
        "steps": [outcome.steps for outcome in outcomes],
        "planned": [outcome.planned for outcome in outcomes],
        "seconds": round(max(outcome.seconds for outcome in outcomes), 2),
        "says": says if ended == "finished" else _trouble(outcomes),
    }


def _ended(outcomes: list[RankOutcome]) -> str:
    if all(outcome.ended == "finished" for outcome in outcomes):
        return "finished"
    late = any(
        outcome.ended == "running" or "timed out" in outcome.message.lower() for outcome in outcomes
    )
    return "timed out" if late else "failed"


def _trouble(outcomes: list[RankOutcome]) -> str:
    """One sentence on what each rank was doing when the epoch ended."""
    parts = []
    for rank, outcome in enumerate(outcomes):
        if outcome.ended == "finished":
            parts.append(f"rank {rank} was done after its {outcome.steps} steps")
            continue
        where = f"rank {rank} in step {outcome.steps + 1} of {outcome.planned}"
        message = _first_sentence(outcome.message)
        if outcome.ended == "running":
            parts.append(f"{where} was killed after {outcome.seconds:.0f} s")
        elif outcome.ended == "gone":
            parts.append(f"{where} exited without a message")
        elif "timed out" in message.lower():
            parts.append(f"{where} waited for the other's gradient: {message}")
        else:
            parts.append(f"{where} failed: {message}")
    return "; ".join(parts)


def _first_sentence(message: str) -> str:
    """An error of gloo without the place in its source and without advice."""
    return re.sub(r"^\[\S+\] ", "", " ".join(message.split())).split(". ")[0]


if __name__ == "__main__":
    main()

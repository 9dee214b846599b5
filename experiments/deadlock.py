"""What the paper starts from: ranks with unevenly many steps wait for ever, and what ends it.

Two ranks on the CPU (gloo) train a small GRU for an epoch on feature sequences with Action
Genome's lengths: with plain DDP and a clip of one video a step, the same with torch's ``Join``,
with each of the five loaders, and with plain DDP where the rank that is done exits.

DDP averages gradients in the backward pass, so a rank that has a step more than the others waits
there. Gloo gives up after the process group's timeout, 30 minutes unless set; here it is seconds,
and a parent kills ranks that stand still for longer than that. With nccl (from PyTorch's
documentation of ``init_process_group``, not measured) the timeout is 10 minutes, after which
collectives are aborted and the process crashes.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bload.dealing import account
from bload.errors import InputError
from bload.lengths import action_genome_lengths
from bload.packers import PACKERS, make_plan
from experiments.epochs import BlockEpoch, UnevenEpoch, clips
from experiments.provenance import now
from experiments.rank_pair import RANKS, RankOutcome, RankPair

PATIENCE = 30.0
"""Gloo's timeout in seconds where nobody should run into it, on a busy machine either."""
GRACE = 5.0
"""Seconds beyond gloo's timeout that ranks may stand still before they are killed."""


@dataclass(frozen=True)
class Row:
    """How one epoch went."""

    what: str
    loader: str
    ended: str
    """finished, timed out or failed."""
    expected: str
    steps: list[int]
    """Steps that each rank did of its own."""
    planned: list[int]
    seconds: float
    says: str


def run(
    folder: Path,
    record: dict[str, Any],
    *,
    videos: int = 200,
    clip: int = 16,
    batch_frames: int = 376,
    timeout: float = 5.0,
    seed: int = 0,
    loaders: Sequence[str] = tuple(PACKERS),
) -> bool:
    """Print the table, write ``deadlock.json`` and say whether every row ended as it should.

    Args:
        record: written besides the rows, with "ended".
        videos: sequences, with lengths drawn from Action Genome's.
        clip: frames a step of plain DDP.
        batch_frames: frames a rank works through in a step of a loader.
        timeout: seconds that a rank waits for another.
        loaders: those to run.

    Raises:
        InputError: an option is out of range, or the ranks happen to have equally many clips.
    """
    lengths = np.random.default_rng(seed).choice(action_genome_lengths(), max(videos, 0))
    _check(lengths, clip, batch_frames, timeout, loaders)
    print(
        f"{RANKS} ranks, gloo, CPU: {videos} sequences of {lengths.min()} to {lengths.max()} "
        f"frames, {lengths.sum():,} in all; under plain DDP gloo's timeout is {timeout:g} s\n",
        flush=True,
    )
    rows = []
    print(f"{'':<24}{'loader':<13}{'ended':<11}{'steps of ranks':>16}{'seconds':>9}  what it says")
    with RankPair() as pair, tempfile.TemporaryDirectory() as meetings:
        for row in _rows(pair, Path(meetings), lengths, clip, batch_frames, timeout, loaders):
            rows.append(row)
            print(_line(row), flush=True)
    well = all(row.ended == row.expected for row in rows)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "deadlock.json"
    content = {
        "rows": [asdict(row) for row in rows],
        "as_expected": well,
        "videos": videos,
        "frames": int(lengths.sum()),
        "clip": clip,
        "batch_frames": batch_frames,
        "timeout": timeout,
        "seed": seed,
        **record,
        "ended": now(),
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    wrong = [row for row in rows if row.ended != row.expected]
    for row in wrong:
        print(f"\n{row.what}, {row.loader}: {row.ended}, where {row.expected} was to be expected")
    print(f"\n{'' if wrong else 'Every row ended as it should. '}Written to {path}")
    return well


def _check(
    lengths: np.ndarray, clip: int, batch_frames: int, timeout: float, loaders: Sequence[str]
) -> None:
    if timeout < 1:
        raise InputError(f"experiment.timeout is {timeout:g} s; give at least 1")
    for name, value, least in (("videos", len(lengths), RANKS), ("clip", clip, 1)):
        if value < least:
            raise InputError(f"experiment.{name} is {value}; give at least {least}")
    if batch_frames < lengths.max():
        raise InputError(
            f"experiment.batch_frames is {batch_frames} but the longest sequence has "
            f"{lengths.max()} frames; give at least as many"
        )
    steps = {len(clips(lengths.tolist(), clip, rank)) for rank in range(RANKS)}
    if len(steps) == 1:
        raise InputError(
            f"both ranks happen to have {steps.pop()} clips, which shows nothing; "
            "give another experiment.seed"
        )
    for loader in loaders:
        if loader not in PACKERS:
            raise InputError(f"there is no loader {loader!r}; choose of {', '.join(PACKERS)}")


def _rows(
    pair: RankPair,
    meetings: Path,
    lengths: np.ndarray,
    clip: int,
    batch_frames: int,
    timeout: float,
    loaders: Sequence[str],
) -> Iterator[Row]:
    """Run the rows one after another."""
    frames = tuple(lengths.tolist())
    uneven = UnevenEpoch(frames, clip, meetings / "plain", timeout)
    steps = [len(clips(frames, clip, rank)) for rank in range(RANKS)]
    few, many = int(np.argmin(steps)), int(np.argmax(steps))

    def row(what: str, loader: str, expected: str, outcomes: list[RankOutcome], says: str) -> Row:
        return Row(
            what,
            loader,
            _ended(outcomes),
            expected,
            [outcome.steps for outcome in outcomes],
            [outcome.planned for outcome in outcomes],
            round(max(outcome.seconds for outcome in outcomes), 2),
            says if _ended(outcomes) == "finished" else _trouble(outcomes),
        )

    yield row("plain DDP", "uneven", "timed out", pair.run(uneven, timeout + GRACE), "")

    joining = UnevenEpoch(frames, clip, meetings / "join", PATIENCE, join=True)
    says = (
        f"rank {few} shadowed {steps[many] - steps[few]} steps of rank {many}; in these the "
        "gradient of one rank is divided by two, so a frame counts as in the others"
    )
    yield row("DDP with Join", "uneven", "finished", pair.run(joining, PATIENCE + GRACE), says)

    for loader in loaders:
        plan = make_plan(lengths, loader)
        counted = account(plan, RANKS * (batch_frames // plan.t_max))
        says = f"{counted.padding:,} padded, {counted.deleted:,} deleted"
        if counted.filler:
            says += f", {counted.filler:,} slots to fill the last step"
        epoch = BlockEpoch(frames, loader, batch_frames, meetings / loader, PATIENCE)
        yield row("DDP, blocks", loader, "finished", pair.run(epoch, PATIENCE + GRACE), says)

    leaving = UnevenEpoch(frames, clip, meetings / "leaving", PATIENCE, leave=True)
    outcomes = pair.run(leaving, PATIENCE + GRACE)
    yield row("DDP, exits when done", "uneven", "failed", outcomes, "")


def _ended(outcomes: list[RankOutcome]) -> str:
    if all(outcome.ended == "finished" for outcome in outcomes):
        return "finished"
    late = any(
        outcome.ended == "running" or "timed out" in outcome.message.lower() for outcome in outcomes
    )
    return "timed out" if late else "failed"


def _trouble(outcomes: list[RankOutcome]) -> str:
    """One sentence on what the ranks were at when it ended."""
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
            parts.append(f"{where} was gone without a word")
        elif "timed out" in message.lower():
            parts.append(f"{where} waited for the other's gradient: {message}")
        else:
            parts.append(f"{where} failed: {message}")
    return "; ".join(parts)


def _first_sentence(message: str) -> str:
    """An error of gloo without the place in its source, and without advice."""
    return re.sub(r"^\[\S+\] ", "", " ".join(message.split())).split(". ")[0]


def _line(row: Row) -> str:
    steps = " and ".join(map(str, row.steps))
    return (
        f"{row.what:<25}{row.loader:<13}{row.ended:<11}{steps:>15}{row.seconds:>9.1f}  {row.says}"
    )

"""Output of a run: one line per epoch, the summary at the end, and runs side by side."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bload import BlockSampler
from datasets.annotations.vocabulary import GROUPS
from datasets.cores import crowded
from datasets.scoring.ranking import LIST_LENGTH, SEMI_THRESHOLD
from training.ranks import Ranks
from training.same_steps import counted

Figures = Mapping[str, Any]
EVEN = 1.0005
"""An imbalance up to this is none."""
LEVEL = 0.05
"""Points of Recall that no line shows."""
NOTHING = 0.01
"""Recall@20 below which a model has learned nothing yet."""
CONSTRAINTS = {
    "with": ("with constraint", "the best attention, spatial and contacting relation per pair"),
    "semi": ("semi constraint", "the best attention relation per pair, all others above 0.9"),
    "no": ("no constraint", "all relations per pair"),
}
"""Name in figures -> in words, and what may be listed."""
STARTS = {
    "table": "",
    "ignored": ", states run over from video to video (starts=ignored)",
    "wrong": ", states cleared in mid-video (starts=wrong)",
}


def opening_text(path: Path, loader: str, sampler: BlockSampler, ranks: Ranks, says: str) -> str:
    """What a run begins with: its folder, loader and data, and what there is to say to them.

    Args:
        says: where training goes on, or what it starts with; may be empty.
    """
    lengths = sampler.lengths
    first = (
        f"{path}: loader {loader}, T_max {sampler.t_max}, {len(lengths):,} videos, "
        f"{lengths.sum():,} frames, {ranks.world_size} x {ranks.device.type}"
    )
    slow = crowded() if ranks.device.type == "cpu" else ""
    return "\n".join(text for text in (first, sampler.note, says, slow) if text)


def epoch_line(epoch: int, epochs: int, figures: Figures) -> str:
    """One line for a training epoch."""
    uneven = figures["imbalance"]
    return (
        f"epoch {epoch:>3}/{epochs}  loss {figures['loss']:.3f}  {figures['seconds']:.1f} s  "
        f"{figures['frames_per_second']:,.0f} frames/s  padding {figures['padding']:,}  "
        f"filler {figures['filler']:,}  deleted {figures['deleted']:,}"
        f"{f'  imbalance {uneven:.3f}' if uneven > EVEN else ''}"
    )


def summary_text(summary: Figures, made: Mapping[str, Path] = {}) -> str:
    """The end of a run: what it cost, what it reached, where everything is.

    Args:
        made: what was drawn of the run and is there -> file.
    """
    share = 100 * summary["padding"] / summary["processed"]
    ranks = counted(summary["ranks"], "rank")
    blocks = f"{summary['loader']}, T_max {summary['t_max']}, {ranks}"
    rows = [
        ("loader", blocks + describe_starts(summary["starts"])),
        ("padding", f"{summary['padding']:,.0f} frames per epoch ({share:.1f} % of the work)"),
        ("filler", f"{summary['filler']:,.0f} empty slots per epoch, to fill the last step"),
        ("deleted frames", f"{summary['deleted']:,.0f} per epoch"),
    ]
    if (uneven := summary.get("imbalance", 1.0)) > EVEN:
        rows.append(("imbalance", f"{uneven:.3f} (work of a step's fullest rank over the mean)"))
    start = summary.get("start_seconds", 0.0)
    rows += [
        (
            "epoch time",
            f"{summary['epoch_seconds']:.1f} s, the median ({summary['steps']:.0f} steps, "
            f"{summary['frames_per_second']:,.0f} frames/s, "
            f"{summary['waiting_seconds']:.1f} s waiting for data)",
        ),
        (
            "training time",
            f"{summary['train_seconds']:.0f} s, epochs: {summary['epochs']}"
            f"{f'; before it {start:.1f} s to start data workers' if start else ''}",
        ),
        ("peak memory", f"{summary['peak_memory_mib']:,.0f} MiB per rank"),
        *recall_rows(summary),
    ]
    if said := compared(summary):
        rows.append(("conclusion", f"Recall@20 is {said}"))
    rows.append(("run folder", f"{summary['folder']}  (checkpoints, metrics.jsonl, logs)"))
    rows += [(of, str(path)) for of, path in made.items()]
    return f"\n{tabulate(rows, tablefmt='plain', disable_numparse=True)}"


def recall_rows(summary: Figures) -> list[tuple[str, str]]:
    """Recall under each constraint, what observers reach, and `cut_note`."""
    rows = []
    for name, (words, listed) in CONSTRAINTS.items():
        at = {k: f"{100 * summary[f'{name}/recall@{k}']:.2f}" for k in (10, 20, 50)}
        value = f"{at[20]} %   (@10 {at[10]}, @50 {at[50]}; {listed})"
        rows.append((f"Recall@20, {words}", value))
    notes = (observed(summary), cut_note(summary.get("queries", 0)))
    rows[1:1] = [*(("", note) for note in notes if note), *observer_rows(summary)[1:]]
    return rows


def cut_note(queries: int) -> str:
    """From which K on lists may end before K; empty for an unknown model, and if none does."""
    if not 0 < queries < LIST_LENGTH:
        return ""
    return (
        f"Columns may be equal. With constraint each of {queries} queries lists {len(GROUPS)} "
        f"relations, so K above {len(GROUPS) * queries} cuts nothing; with semi constraint most "
        f"list 1, with more only above {SEMI_THRESHOLD}, so K above {queries} cuts little."
    )


def observer_rows(figures: Figures) -> list[tuple[str, str]]:
    """Recall@20 beside that of ideal observers, which remember everything or nothing.

    Empty for real data, for which that is not known.
    """
    rows = []
    for name, ending in (("all relations", ""), ("must be remembered", "_memory")):
        model = 100 * figures.get(f"with/recall@20{ending}", math.nan)
        if math.isfinite(model) and (others := observed(figures, ending)):
            rows.append((f"Recall@20, {name}", f"{model:.2f} %   ({others})"))
    return rows


def observed(figures: Figures, ending: str = "") -> str:
    """What observers reach of all relations or, ending in ``_memory``, of some; empty if none."""
    keys = [f"{of}/recall@20{ending}" for of in ("remembering", "memoryless")]
    remembering, memoryless = (100 * figures.get(key, math.nan) for key in keys)
    if not math.isfinite(remembering + memoryless):
        return ""
    return f"an ideal observer: {remembering:.2f} with memory, {memoryless:.2f} without"


def verdict(figures: Figures) -> str:
    """`compared` with its figures; empty where no observer is known."""
    if not (said := compared(figures)):
        return ""
    model, other = (100 * figures[f"{of}/recall@20"] for of in ("with", "memoryless"))
    beside = f" ({other:.1f} %)" if model >= 100 * NOTHING else ""
    return f"Recall@20 of {model:.1f} % is {said}{beside}"


def compared(figures: Figures) -> str:
    """How far Recall@20 is from the ideal observer without memory; empty where none is known."""
    model, other = (figures.get(f"{of}/recall@20", math.nan) for of in ("with", "memoryless"))
    if not math.isfinite(points := 100 * (model - other)):
        return ""
    if model < NOTHING:
        return "near 0: the run was too short to learn anything"
    side = f"{abs(points):.1f} points {'above' if points > 0 else 'below'}"
    if abs(points) < LEVEL:
        side = "level with"
    return f"{side} the ideal observer without memory"


def describe_starts(starts: str) -> str:
    """Describe how states are cleared, to end a sentence with; nothing if it is by the table."""
    return STARTS[starts]

"""Output of a run on the screen: its beginning, one line per epoch, the summary at the end."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bload import BlockSampler
from training.ranks import Ranks

Figures = Mapping[str, Any]
EVEN = 1.0005
"""Largest imbalance that is not printed."""
LITTLE = 0.5
"""Share of the best possible Recall@20 without memory below which a model has learned little."""
CONSTRAINTS_IN_WORDS = {
    "with": ("with constraint", "the best attention, spatial and contacting relation per pair"),
    "semi": ("semi constraint", "the best attention relation per pair, others if above 0.9"),
    "no": ("no constraint", "all relations per pair"),
}
"""Name in figures -> its words, and the triplets that it allows."""
RESETS_IN_WORDS = {
    "table": "",
    "ignored": ", states run over from video to video (starts=ignored)",
    "wrong": ", states cleared in mid-video (starts=wrong)",
}
"""Value of ``starts`` -> end of a sentence on it."""


def opening_text(path: Path, loader: str, sampler: BlockSampler, ranks: Ranks, message: str) -> str:
    """Format the beginning of a run: its folder, loader and data, and remarks on them.

    Args:
        message: what training resumes from or starts with; may be empty.
    """
    lengths = sampler.lengths
    first = (
        f"{path}: loader {loader}, T_max {sampler.t_max}, {len(lengths):,} videos, "
        f"{lengths.sum():,} frames, {ranks.world_size} x {ranks.device.type}"
    )
    return "\n".join(text for text in (first, sampler.note, message) if text)


def epoch_line(epoch: int, epochs: int, figures: Figures) -> str:
    """Format one line for a training epoch."""
    uneven = figures["imbalance"]
    return (
        f"epoch {epoch:>3}/{epochs}  loss {figures['loss']:.3f}  {figures['seconds']:.1f} s  "
        f"{figures['frames_per_second']:,.0f} frames/s  padding {figures['padding']:,}  "
        f"filler {figures['filler']:,}  deleted {figures['deleted']:,}"
        f"{f'  imbalance {uneven:.3f}' if uneven > EVEN else ''}"
    )


def summary_text(summary: Figures, drawn: Iterable[Path] = ()) -> str:
    """Format the end of a run: its cost, its recall, its files.

    Args:
        drawn: files of pictures and the page.
    """
    share = 100 * summary["padding"] / summary["processed"]
    holds = [*(path.name for path in drawn), "checkpoints", "metrics.jsonl", "logs"]
    rows = [
        (
            "loader",
            f"{summary['loader']}, T_max {summary['t_max']}, ranks: {summary['ranks']}"
            f"{RESETS_IN_WORDS[summary['starts']]}",
        ),
        ("padding", f"{summary['padding']:,.0f} slots per epoch ({share:.1f} % of all)"),
        ("fillers", f"{summary['filler']:,.0f} slots per epoch, which complete the last step"),
        ("deleted frames", f"{summary['deleted']:,.0f} per epoch"),
    ]
    if summary["imbalance"] > EVEN:
        uneven = f"{summary['imbalance']:.3f} (slots of a step's fullest rank over the mean)"
        rows.append(("imbalance", uneven))
    rows += [
        (
            "epoch time",
            f"{summary['epoch_seconds']:.1f} s{', the median' * (summary['epochs'] > 2)} "
            f"({summary['steps']:.0f} steps, "
            f"{summary['frames_per_second']:,.0f} frames/s, "
            f"{summary['waiting_seconds']:.1f} s waiting for data)",
        ),
        ("training time", f"{summary['train_seconds']:.0f} s, epochs: {summary['epochs']}"),
        ("peak memory", f"{summary['peak_memory_mib']:,.0f} MiB per rank"),
        ("evaluated", f"{summary['eval_frames']:,.0f} frames of split {summary['split']}"),
        *recall_rows(summary),
        ("run folder", f"{summary['folder']}  ({', '.join(holds)})"),
    ]
    return f"\n{tabulate(rows, tablefmt='plain', disable_numparse=True)}"


def recall_rows(figures: Figures) -> list[tuple[str, str]]:
    """Return rows of recall under each constraint; for synthetic data also the best possible."""
    rows = []
    for name, (words, listed) in CONSTRAINTS_IN_WORDS.items():
        at = {k: f"{100 * figures[f'{name}/recall@{k}']:.2f}" for k in (10, 20, 50)}
        value = f"{at[20]} %   (@10 {at[10]}, @50 {at[50]}; {listed})"
        rows.append((f"Recall@20, {words}", value))
    rows[1:1] = best_rows(figures)
    if distance := from_memoryless(figures):
        rows.append(("conclusion", f"Recall@20 is {distance}"))
    return rows


def best_rows(figures: Figures) -> list[tuple[str, str]]:
    """Return rows of the ideal observers with and without memory, if these are known.

    One row is for all relations, one for those whose cue was in an earlier frame.
    """
    rows = []
    for name, ending in (("ideal observers", ""), ("needs memory", "_memory")):
        keys = [f"{of}/recall@20{ending}" for of in ("with", "remembering", "memoryless")]
        model, best, without = (100 * figures.get(key, math.nan) for key in keys)
        if math.isfinite(model + best + without):
            ideal = f"{best:.2f} % with memory, {without:.2f} % without"
            rows.append((name, f"{model:.2f} %   (ideal observers: {ideal})" if ending else ideal))
    return rows


def from_memoryless(figures: Figures) -> str:
    """Say how far Recall@20 is from the best without memory; empty if that is not known."""
    model, without = (figures.get(f"{of}/recall@20", math.nan) for of in ("with", "memoryless"))
    if not math.isfinite(model + without):
        return ""
    if model < LITTLE * without:
        return "so low that the run was too short to learn much"
    points = 100 * (model - without)
    side = "above" if points >= 0 else "below"
    return (
        f"{abs(points):.1f} points {side} the best possible without memory ({100 * without:.1f} %)"
    )

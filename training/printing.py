"""Output of a run on the screen: its beginning, and the summary at the end."""

import math
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from bload import BlockSampler
from training.ranks import Ranks

CONSTRAINTS_IN_WORDS = {
    "with": ("with constraint", "the best attention, spatial and contacting relation per pair"),
    "semi": ("semi constraint", "the best attention relation per pair, others if above 0.9"),
    "no": ("no constraint", "all relations per pair"),
}
"""Name in figures -> its words, and the triplets that it allows."""


def opening_text(
    path: Path, loader: str, sampler: BlockSampler, ranks: Ranks, remarks: Iterable[str]
) -> str:
    """Format the beginning of a run: its folder, loader and data, and what it starts with."""
    lengths = sampler.lengths
    lines = [
        f"{path}: loader {loader}, T_max {sampler.t_max}, {len(lengths):,} videos, "
        f"{lengths.sum():,} frames, {ranks.world_size} x {ranks.device.type}"
    ]
    gpus = torch.cuda.device_count() if ranks.device.type == "cuda" else 0
    if ranks.world_size == 1 and gpus > 1:
        command = f"torchrun --nproc_per_node={gpus} {shlex.join(sys.argv)}"
        lines.append(f"this trains on one of {gpus} GPUs; on all of them: {command}")
    return "\n".join([*lines, *remarks])


def summary_text(summary: Mapping[str, Any]) -> str:
    """Format the end of a run: its cost, its recall, its folder; wrapped to the terminal."""
    widths = [None, max(shutil.get_terminal_size((200, 24)).columns - 28, 40)]
    text = tabulate(summary_rows(summary), (), "plain", disable_numparse=True, maxcolwidths=widths)
    return f"\n{text}\n{'run folder':28}{summary['folder']}"


def summary_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return rows of the cost and the recall of a run."""
    share = summary["padding"] / summary["processed"]
    starts = "" if summary["starts"] == "table" else f", starts={summary['starts']}"
    loader = f"{summary['loader']}, T_max {summary['t_max']}, ranks: {summary['ranks']}{starts}"
    rows = [
        ("loader", loader),
        ("padding", f"{summary['padding']:,.0f} slots per epoch ({share:.1%} of all)"),
        ("fillers", f"{summary['filler']:,.0f} slots per epoch, which complete the last step"),
        ("deleted frames", f"{summary['deleted']:,.0f} per epoch"),
        ("imbalance", f"{summary['imbalance']:.3f} (a step's fullest rank / mean, fillers too)"),
        (
            "epoch time",
            f"{summary['epoch_seconds']:.1f} s, the median ({summary['steps']:.0f} steps, "
            f"{summary['frames_per_second']:,.0f} frames/s, "
            f"{summary['waiting_seconds']:.1f} s waiting for data)",
        ),
        ("training time", f"{summary['train_seconds']:.0f} s, epochs: {summary['epochs']}"),
        ("peak memory", f"{summary['peak_memory_mib']:,.0f} MiB per rank"),
        ("evaluated", f"{summary['eval_frames']:,.0f} frames of split {summary['split']}"),
    ]
    for name, (words, listed) in CONSTRAINTS_IN_WORDS.items():
        at_10, at_20, at_50 = (f"{100 * summary[f'{name}/recall@{k}']:.2f}" for k in (10, 20, 50))
        rows.append((f"Recall@20, {words}", f"{at_20} %   (@10 {at_10}, @50 {at_50}; {listed})"))
        if name == "with":
            rows += observer_rows(summary)
            steps = summary["steps"] * summary["epochs"]
            if steps < 500 and summary["with/recall@20"] < 0.05:  # it has not begun to learn
                rows.append(("Recall near 0", f"normal after {steps:.0f} steps, too few to learn"))
    return rows


def observer_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return rows of the ideal observers with and without memory, if these are known.

    One row is for all relations, one for those whose cue was in an earlier frame.
    """
    rows = []
    for name, ending in (("ideal observers", ""), ("needs memory", "_memory")):
        keys = [f"{prefix}/recall@20{ending}" for prefix in ("with", "remembering", "memoryless")]
        model, ideal, memoryless = (100 * figures.get(key, math.nan) for key in keys)
        if math.isfinite(model + ideal + memoryless):
            observers = f"{ideal:.2f} % with memory, {memoryless:.2f} % without"
            value = f"{model:.2f} %   (ideal observers: {observers})" if ending else observers
            rows.append((name, value))
    return rows

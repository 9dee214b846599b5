"""Figures of the README and docs/results.md, from the committed files by code of their own."""

import csv
import math
from statistics import fmean, variance

from scipy.special import stdtrit

from experiments.study import DOCUMENT, RESULTS, ROOT

LOADER, STARTS = "loader.name", "train.starts"


def rows_of(name):
    with (RESULTS / name).open() as file:
        return [*csv.DictReader(file)]


def recalls(name, seed="train.seed", **wanted):
    """Recall@20 in percent by seed of the runs with these values in their config."""
    mine = [run for run in rows_of(name) if wanted.items() <= run.items()]
    return {run[seed]: 100 * float(run["with/recall@20"]) for run in mine}


def said(mean, error, freedom, change=float):
    half = stdtrit(freedom, 0.975) * error
    low, mean, high = (f"{change(of):.1f}" for of in (mean - half, mean, mean + half))
    return f"{mean} [{low}, {high}]"


def by_seed(ones, others, change=float):
    less = [value - others[seed] for seed, value in ones.items() if seed in others]
    return said(fmean(less), math.sqrt(variance(less) / len(less)), len(less) - 1, change)


def log_slots(level, curve):
    """Logarithm of the slots at which a curve reaches a level, straight between evaluations."""
    whole = [(float(x["epoch"]), float(x["processed"])) for x in curve if x["processed"]]
    before = (0.0, 0.0)
    for line in curve:
        done, recall = float(line["epoch"]) + 1, float(line["with/recall@20"])
        at = sum(slots * min(1, max(0, done - begin)) for begin, slots in whole)
        if recall >= level:
            share = (level - before[1]) / (recall - before[1])
            return math.log(before[0] + share * (at - before[0]))
        before = at, recall
    return math.nan


def test_figures_of_the_documents_follow_from_the_committed_runs():
    document, readme = (" ".join(of.read_text().split()) for of in (DOCUMENT, ROOT / "README.md"))
    # Equal epochs: Welch's interval, since seeds of different loaders are no pairs.
    bload, sampling = (
        [*recalls("paper_table/runs.csv", **{LOADER: of}).values()] for of in ("bload", "sampling")
    )
    a, b = (variance(of) / len(of) for of in (bload, sampling))
    freedom = (a + b) ** 2 / (a**2 / (len(bload) - 1) + b**2 / (len(sampling) - 1))
    gain = said(fmean(bload) - fmean(sampling), math.sqrt(a + b), freedom)
    assert f"| +{gain} |" in document
    assert f"| {fmean(sampling):.1f} | 58.7 | {fmean(bload):.1f} |" in readme
    # The start table: pairs of a seed after 5 epochs, and of other runs after 10.
    ways = ("table", "ignored")
    five = [recalls("reset_ablation/runs.csv", **{STARTS: of}) for of in ways]
    dds = {"seed": "seed", "epochs": "10", "temporal": "dds"}
    ten = [recalls("learning.csv", **dds, starts=of) for of in ways]
    both = [
        a | {f"10 {seed}": of for seed, of in b.items()} for a, b in zip(five, ten, strict=True)
    ]
    assert f"| {by_seed(*five[::-1])} |" in document
    assert f"[below](#the-default-run)), {by_seed(*ten)} seed by seed" in document
    assert f"two lengths of training: {by_seed(*both)}." in document
    # Horizon: whole videos less fresh clips where a state lasts as long as the video.
    last = {"dataset.dwell": "1000.0", STARTS: "table"}
    fresh = recalls("horizon/runs.csv", **last, **{LOADER: "sampling", "loader.place": "random"})
    gain = by_seed(recalls("horizon/runs.csv", **last, **{LOADER: "bload"}), fresh)
    assert f"| +{gain} |" in document
    assert f"by {gain} if for the whole video" in readme
    # Long training: slots of naive over those of bload to 90 % of naive's mean end.
    curves, runs = {}, rows_of("convergence/runs.csv")
    for line in rows_of("convergence/curves.csv"):
        curves.setdefault(line["run"], []).append(line)
    ends = [[run for run in runs if run[LOADER] == of] for of in ("naive", "bload")]
    level = 0.9 * fmean(float(curves[run["run"]][-1]["with/recall@20"]) for run in ends[0])
    slots = ({x["train.seed"]: log_slots(level, curves[x["run"]]) for x in of} for of in ends)
    times = by_seed(*slots, math.exp)
    assert f"naive padding takes {times} times the slots of `bload`" in readme
    assert f"| {times} |" in document

"""Figures of the documents are those of the committed files, by the studies and by other code."""

import csv
import math
import runpy
import sys
from pathlib import Path
from statistics import fmean, variance

import pytest
from matplotlib.figure import Figure
from scipy.special import stdtrit

from experiments.study import DOCS, RESULTS, ROOT

LOADER, STARTS = "loader.name", "train.starts"
COMMANDS = [
    *("ablations", "alternatives", "balance", "convergence", "deadlock"),
    "default_run",
    *(
        "epoch_time",
        "horizon",
        "models",
        "movielens",
        "paper",
        "one_rank",
        "rates",
        "sync",
        "tmax_sweep",
    ),
    pytest.param("lengths", marks=pytest.mark.slow),
    "benchmarks/__main__ --tables",
    "benchmarks/__main__ --tables trainer",
    "benchmarks/__main__ --tables gpu",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_study_writes_what_the_documents_hold(command, monkeypatch):
    written = []
    monkeypatch.setattr(Path, "write_text", lambda *path_and_text: written.append(path_and_text))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", command.split())
    runpy.run_path(f"{ROOT}/experiments/{sys.argv[0]}.py", run_name="__main__")
    assert written
    for path, text in written:
        assert text == path.read_text()


def rows_of(name):
    with (RESULTS / name).open() as file:
        return [*csv.DictReader(file)]


def recalls(name, **wanted):
    """Recall@20 in percent by seed of the runs with these values in their config."""
    mine = [run for run in rows_of(name) if wanted.items() <= run.items()]
    return {run["train.seed"]: 100 * float(run["with/recall@20"]) for run in mine}


def said(mean, error, freedom, change=float, digits=1):
    half = stdtrit(freedom, 0.975) * error
    low, mean, high = (f"{change(of):.{digits}f}" for of in (mean - half, mean, mean + half))
    return f"{mean} [{low}, {high}]"


def differences(ones, others):
    return {seed: value - others[seed] for seed, value in ones.items() if seed in others}


def by_seed(ones, others, *form):
    less = [*differences(ones, others).values()]
    return said(fmean(less), math.sqrt(variance(less) / len(less)), len(less) - 1, *form)


def by_round(name, columns, *loaders, **same):
    """The product of columns of one loader over that of another, in the rows with these values."""
    logs = []
    for loader in loaders:
        mine = [row for row in rows_of(name) if {"loader": loader, **same}.items() <= row.items()]
        products = {row["round"]: math.prod(float(row[of]) for of in columns) for row in mine}
        logs.append({turn: math.log(product) for turn, product in products.items()})
    return by_seed(*logs, math.exp, 2)


def log_slots(level, curve):
    """Logarithm of the slots at which a curve reaches a level, straight between evaluations."""
    whole = [(float(x["epoch"]) - 1, float(x["processed"])) for x in curve if x["processed"]]
    before = (0.0, 0.0)
    for line in curve:
        done, recall = float(line["epoch"]), float(line["with/recall@20"])
        at = sum(slots * min(1, max(0, done - begin)) for begin, slots in whole)
        if recall >= level:
            share = (level - before[1]) / (recall - before[1])
            return math.log(before[0] + share * (at - before[0]))
        before = at, recall
    return math.nan


def test_figures_of_the_documents_follow_from_the_committed_runs():
    pages = "".join(page.read_text() for page in sorted((DOCS / "results").glob("*.md")))
    document = " ".join(pages.split())
    # Equal epochs and slots per step: a seed's runs under two loaders are a pair.
    same = {"train.batch_slots": "94", "train.slots": ""}
    bload, sampling = (
        recalls("one_rank/runs.csv", **same, **{LOADER: of, "loader.clips": clips})
        for of, clips in (("bload", ""), ("sampling", "one"))
    )
    assert f"| +{by_seed(bload, sampling)}" in document
    # The start table: pairs of a seed.
    ways = ("table", "ignored")
    default = {"model.temporal": "dds", "train.padding": "masked"}
    runs = [recalls("ablations/runs.csv", **default, **{STARTS: of}) for of in ways]
    assert f"| {by_seed(*runs[::-1])}" in document
    # Horizon: whole videos less fresh clips where a state lasts as long as the video, and how much
    # more that is than where it lasts 8 frames; in both sets of runs.
    for split in ("", "final"):
        gains = []
        for dwell in ("1000.0", "8.0"):
            same = {"dataset.dwell": dwell, STARTS: "table", "split": split}
            fresh = recalls("horizon/runs.csv", **same, **{"loader.place": "random"})
            whole = recalls("horizon/runs.csv", **same, **{LOADER: "bload"})
            gains.append(differences(whole, fresh))
        gain = by_seed(gains[0], dict.fromkeys(gains[0], 0))
        assert f"| +{gain}" in document
        assert f"grows with the horizon | +{by_seed(*gains)} |" in document
    # Long training: slots of naive over those of bload to 90 % of naive's mean end.
    curves, runs = {}, rows_of("convergence/runs.csv")
    for line in rows_of("convergence/curves.csv"):
        curves.setdefault(line["run"], []).append(line)
    ends = [[run for run in runs if run[LOADER] == of] for of in ("naive", "bload")]
    level = 0.9 * fmean(float(curves[run["run"]][-1]["with/recall@20"]) for run in ends[0])
    slots = ({x["train.seed"]: log_slots(level, curves[x["run"]]) for x in of} for of in ends)
    times = by_seed(*slots, math.exp)
    assert f"| {times} |" in document
    # Time of an epoch and speed on two ranks, of which all loaders took turns in each round.
    columns, same = ("seconds_a_step", "steps"), {"measured": "measured, 96 pixels"}
    times = by_round("epoch_time.csv", columns, "naive", "bload", **same)
    assert f"| {times} |" in document
    columns, same = ("frames_per_second",), {"ranks": "2", "padding": "computed"}
    times = by_round("alternatives.csv", columns, "naive", "bload_exact", **same)
    assert f"| {times} | 534,831 |" in document

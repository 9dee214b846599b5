"""The paper's table beside ours: padding, deletion, time of an epoch, Recall@20.

    torchrun --nproc_per_node=2 train.py experiment=paper_table
    python -m experiments.paper_table [FOLDER ...]

All is read from the runs: whatever loaders, seeds and numbers of epochs the folders have. Two
tables compare Recall@20: at equal epochs, and at equal work, where a way has about as many slots as
`bload`. Judged: `bload` minus each other way, by seed, with Holm's correction within a table
(dev/LOG.md, "The paper's table under DDP"), each at the rate that `experiments.rates` chose.

Without FOLDER it reads the committed runs and rewrites README's table too. They trained beside
other work, so the time of an epoch is that of `experiments.epoch_time`, on the same lengths.
"""

from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path

import pandas as pd

from bload.errors import plural
from bload.packing.packers import PACKERS
from datasets.files import exit_on_input_error
from experiments import epoch_time, study
from experiments.intervals import Interval, corrected, signed, t_interval
from experiments.runs import compared_keys, name_splits, name_ways, read_runs, refuse_mixtures
from training import paper_figures, sweep_table

LOADER, SEED = "loader.name", "train.seed"
LOADERS = ("naive", "sampling", "mix", "bload", "bload_exact")
NEAR = 1.5
"""Ratio of slots within which two runs have about equal work."""
IN_README = ("naive", "sampling", "bload", "bload_exact")


def runs_by_table(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return runs by the table that they are in; some are in several.

    Equal epochs are the most common number of them. One per step, and four, are clips or blocks.
    """
    usual = runs[runs.step_slots == runs.step_slots.mode()[0]]
    epochs = runs[runs.epochs == usual.epochs.mode()[0]]
    parts = {"equal epochs": epochs[epochs.index.isin(usual.index)]}
    reference = parts["equal epochs"][parts["equal epochs"][LOADER] == "bload"].slots.mean()
    work = usual[usual.slots.between(reference / NEAR, reference * NEAR)]
    if len(work.drop(parts["equal epochs"].index, errors="ignore")):
        parts["equal work"] = work
    for name, count in (("one per step", 1), ("four per step", 4)):
        held = epochs[epochs.step_slots // epochs.t_max == count]
        if {"sampling", "bload"} <= {*held[LOADER]} and not held.equals(parts["equal epochs"]):
            parts[name] = held
    return parts


def name_left_out(runs: pd.DataFrame, parts: dict[str, pd.DataFrame]) -> str:
    """Say in lines, after the tables, which runs are in none, and which loaders have no run."""
    rest = runs[~runs.index.isin(pd.concat(parts.values()).index)]
    loaders = f"{plural(len(rest), 'run')} ({', '.join(rest[LOADER].unique())})"
    words = f"\n\nOf other steps or epochs, and so in no table: {loaders}." if len(rest) else ""
    return words + study.name_missing([name for name in LOADERS if name not in {*runs[LOADER]}])


def split_ways(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield runs alike in all but the seed: their loader, what else differs there, and the runs."""
    keys = [key for key in compared_keys(runs) if key not in (LOADER, "loader.clips")]
    runs = runs.assign(way=name_ways(runs))
    order = runs[LOADER].map(lambda name: [*PACKERS, name].index(name))
    runs = runs.assign(order=order).sort_values(["order", "way", "epochs"], kind="stable")
    differ = runs[keys].map(str).groupby([runs.way, runs.epochs]).nunique().max() > 1
    names = runs.way
    for key in differ.index[differ]:
        values = runs[key].map(str).str.removesuffix(".0").str.replace(", ", ",")  # of a list
        names = names + (f", {key}=" + values).where(values != "nan", "")  # of null
    for (name, _), seeds in runs.groupby([names, runs.epochs], sort=False):
        yield name, refuse_mixtures(seeds, LOADER)


def overview(
    parts: dict[str, pd.DataFrame],
    speeds: dict[str, float] | None = None,
    shown: Sequence[str] | None = None,
) -> str:
    """Tabulate measures down and ways across: the paper's figure / ours; ours alone elsewhere.

    Args:
        speeds: times as fast as naive's an epoch of each way is; None takes the runs' seconds.
        shown: the ways to show, of those in the runs; None shows all.
    """
    ways, work = dict(split_ways(parts["equal epochs"])), {}
    if "equal work" in parts:  # of a way's runs, those with about as many slots as bload's
        slots = parts["equal epochs"].groupby(LOADER).slots.mean()["bload"]
        ordered = split_ways(parts["equal work"])
        work = dict(sorted(ordered, key=lambda way: -abs(way[1].slots.mean() - slots)))
    notes = [] if speeds or "naive" not in ways else [sweep_table.SPEED]
    if speeds is None:
        seconds = {way: runs.epoch_seconds.mean() for way, runs in ways.items()}
        speeds = {way: seconds.get("naive", nan) / value for way, value in seconds.items()}
    keys = ("padding", "deleted", "recall")
    means = {key: {way: runs[key].mean() for way, runs in ways.items()} for key in keys}
    epochs = plural(int(parts["equal epochs"].epochs.iloc[0]), "epoch")
    measures = {
        "padded slots per epoch": ("padding", 0, means["padding"]),
        "deleted frames per epoch": ("deleted", 0, means["deleted"]),
        "speed of an epoch, naive = 1": ("speed", 2, speeds),
        f"Recall@20; ours after {epochs}": ("recall", 1, means["recall"]),
        "runs of ours": ("", 0, {way: len(runs) for way, runs in ways.items()}),
        "Recall@20 at equal work": ("", 1, {way: runs.recall.mean() for way, runs in work.items()}),
    }
    ways = {way: runs for way, runs in ways.items() if shown is None or way in shown}
    rows = []
    for name, (figure, digits, values) in measures.items():
        cells = [
            beside_papers(way, runs, figure, Interval(values.get(way, nan)).text(digits))
            for way, runs in ways.items()
        ]
        if any(cells):
            rows.append([name, *cells])
    table = study.markdown(rows, ["", *ways])
    notes += [sweep_table.NEAR_ZERO] if parts["equal epochs"].recall.min() < 5 else []
    notes += [f"`{mark}` {words}." for mark, words in paper_figures.MARKS.items() if mark in table]
    return "\n\n".join([table, *notes])


def beside_papers(way: str, runs: pd.DataFrame, figure: str, ours: str) -> str:
    """Return a cell: the paper's figure / ours; ours alone for ways or lengths not in the paper."""
    summary = {"loader": way, **runs.iloc[0].reindex(["t_max", "lengths"])}
    is_papers = way != "bload_exact" and figure and paper_figures.is_papers_loader(summary)
    known = (paper_figures.cell(way, figure) or "-") if is_papers else ""
    return " / ".join(filter(None, (known, ours)))


def recall_table(runs: pd.DataFrame, title: str) -> str:
    """Tabulate Recall@20 beside the work it took, and `bload` minus each of the others, by seed."""
    rows = []
    ways = {(name, way.epochs.iloc[0]): way.set_index(SEED) for name, way in split_ways(runs)}
    bloads = [way for way, seeds in ways.items() if seeds[LOADER].iloc[0] == "bload"]
    plain = [way for way in bloads if "=gap" not in way[0]]
    base = ways[plain[0]] if len(plain) == 1 else runs[:0]
    others = {way: seeds for way, seeds in ways.items() if seeds is not base}
    gains = corrected(base.recall - seeds.recall for seeds in others.values())
    less = dict(zip(others, gains, strict=True))
    for way, seeds in ways.items():
        row = [way[0], *(f"{seeds[key].mean():,.0f}" for key in ("epochs", "all_steps", "slots"))]
        numbers = [f"{seed:.0f}" for seed in sorted(seeds.index)]
        row += [f"{seeds['train.lr'].iloc[0]:g}", ", ".join(numbers)]
        recall, remembered = t_interval(seeds.recall), t_interval(seeds.remembered)
        row += [recall.text(), less.get(way, ""), remembered.text()]
        row += [signed(base.remembered - seeds.remembered) if way in less else ""]
        first = seeds.iloc[0]
        command = ["-m", f"loader={first[LOADER]}"]
        size = " size=quick" if first.get("experiment.suffix") == "_quick" else ""
        if isinstance(name := first["experiment.name"], str):
            command[0] = f"experiment={name}{size}"
        if isinstance(clips := first.get("loader.clips"), str):
            command += [f"loader.clips={clips}"]
        command += way[0].split(", ")[1:]
        if [other for other, _ in ways].count(way[0]) > 1 and first["train.slots"] > 0:
            command += [f"train.slots={first['train.slots']:.0f}"]
        command += [f"train.seed={','.join(numbers)}"]
        rows.append([*row, f"`{' '.join(command)}`"])
    heads = ["epochs", "steps", "slots", "rate", "seeds", f"Recall@20, {name_splits(runs)}"]
    heads += ["`bload` minus this row", "needs memory", "`bload` minus this row", "`train.py ...`"]
    return study.markdown(rows, [title, *heads])


@exit_on_input_error()
def main() -> None:
    parser = study.make_parser("paper_table", __doc__)
    parser.add_argument("folders", type=Path, nargs="*", help="of runs; default: committed ones")
    args = parser.parse_args()
    committed = not args.folders
    folders = args.folders or [study.RESULTS / "paper_table"]
    runs = pd.concat(map(read_runs, folders), ignore_index=True)
    parts = runs_by_table(runs)
    speeds = None
    if committed:
        turns = study.read_rows(study.RESULTS / "epoch_time.csv")
        speeds = {name: interval.mean for name, interval in epoch_time.speeds(turns).items()}
        short = overview({"equal epochs": parts["equal epochs"]}, speeds, IN_README)
        table, *_ = short.split("\n| runs of ours")  # README explains the rest itself
        study.publish("paper_table", table, committed=True, document=study.README)
    tables = [recall_table(part, title) for title, part in parts.items()]
    text = "\n\n".join([overview(parts, speeds), *tables]) + name_left_out(runs, parts)
    study.publish("paper_table", text, committed=committed)


if __name__ == "__main__":
    main()

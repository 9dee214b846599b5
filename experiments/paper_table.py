"""The paper's table beside ours: padding, deletion, time of an epoch, Recall@20.

    python train.py experiment=one_rank                     # and the others in its file
    python -m experiments.paper_table [FOLDER] [--latex]

Runs have equal epochs or equal work, and equal slots, one or four blocks or clips in a step. Each
has the learning rate that `experiments.rates` chose. Judged: `bload` minus each other loader, by
seed, with Holm's correction within a table (dev/LOG.md, "The headline, again"). Times and work to
the same Recall@20 are those of `experiments.epoch_time` and `experiments.convergence`.

Without FOLDER it rewrites the README's table too. With one it compares the runs there, such as
those of ``experiment=full_size``. ``--latex`` prints the first table, for a paper with booktabs.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bload import action_genome_lengths
from bload.packing.packers import PACKERS
from bload.show.draw import colour_of, label_of
from bload.show.table import table_rows
from experiments import convergence, epoch_time, paper, study
from experiments.intervals import Interval, corrected, ratio, signed, student
from experiments.runs import name_splits, read_curves, read_runs

LOADER, SEED, SLOTS = "loader.name", "train.seed", "train.batch_slots"
LOADERS = ["naive", "sampling", "sampling clips=all", "mix", "bload", "bload_exact"]
Row = tuple[str, str, dict[str, str], dict[str, str]]
"""A measure, its page in docs/results/, and the paper's figures and ours by loader."""


def pack() -> pd.DataFrame:
    """Return Action Genome's training lengths under each loader."""
    rows = table_rows(action_genome_lengths("train"), epochs=20, randomness=True)
    return pd.DataFrame(rows).set_index("loader").loc[LOADERS]


def paper_figures(name: str) -> pd.Series:
    """Return a figure of the paper by loader, NaN where there is none."""
    return pd.Series({loader: paper.figure(loader, name) for loader in LOADERS}, dtype=float)


def texts(figures: Mapping, digits: int, name: str = "") -> dict[str, str]:
    """Format the known figures by loader; stars are on those of the paper that nobody could read.

    Args:
        name: of the paper's figure.
    """
    return {
        loader: f"{figure:,.{digits if figure != 1 else 0}f}"
        + "*" * paper.is_remembered(loader, name)
        for loader, figure in figures.items()
        if figure == figure
    }


def overview(packed: pd.DataFrame, parts: dict[str, pd.DataFrame], committed: bool) -> list[Row]:
    """Return the first table; what other studies committed stands only beside committed runs."""
    rows: list[Row] = []
    for name, key in (("padded slots", "padding"), ("deleted frames", "deleted")):
        paper_cells = texts(paper_figures(key), 0, key)
        rows.append((f"{name} per epoch", "padding", paper_cells, texts(packed[key], 0)))
    if committed:
        minutes = paper_figures("minutes")
        paper_cells = texts(minutes["naive"] / minutes, 2, "minutes")
        name = "speed of an epoch, naive = 1"
        rows.append((name, "epoch_time", paper_cells, texts(speeds(), 2)))
    if (work := parts.get("equal work")) is not None:
        own_cells = texts(mean_recall(work), 1)
        rows.append(("**Recall@20, equal work**", "paper_table", {}, own_cells))
    paper_cells = texts(paper_figures("recall_at_20"), 1, "recall_at_20")
    own_cells = texts(mean_recall(parts["equal epochs"]), 1)
    rows.append(("Recall@20, equal epochs", "paper_table", paper_cells, own_cells))
    if committed:
        level, shares = same_recall()
        name = f"slots until {level:.1f} % Recall@20, naive = 1"
        rows.append((name, "convergence", {}, texts(shares, 2)))
    return rows


def mean_recall(runs: pd.DataFrame) -> dict[str, float]:
    """Return mean Recall@20 by way, of the runs at equal work if there are any."""
    if budget := find_budget(runs):
        runs = runs[runs["train.slots"].fillna(budget) == budget]
    return {way: seeds.recall.mean() for way, seeds in split_ways(runs)}


def find_budget(runs: pd.DataFrame) -> float:
    """Return the slots of the runs at equal work; 0: there are none."""
    slots = runs.get("train.slots", pd.Series(dtype=float)).dropna()
    return float(slots.mode()[0]) if len(slots) else 0


def speeds() -> dict[str, float]:
    """Return how many times as fast as naive's the epoch of each is, as last measured."""
    turns = study.read_rows(study.RESULTS / "epoch_time.csv")
    *_, last = epoch_time.speeds(turns).values()
    return {name: interval.mean for name, interval in last.items()}


def same_recall() -> tuple[float, dict[str, float]]:
    """Return the common level of long training in percent, and the share of naive's slots to it."""
    _, curves = convergence.read(study.RESULTS / "convergence")
    level = convergence.common_level(curves)
    slots = convergence.to_level(level, curves)
    return level, {name: ratio(slots[name], slots.naive).mean for name in slots}


def overview_table(rows: list[Row], form: str, link: bool = False) -> str:
    """Format measures down and loaders across, the paper's figure / ours; pages are linked."""
    cells = []
    for name, page, paper_cells, own_cells in rows:
        label = f"[{name}](docs/results/{page}.md)" if link else name.strip("*")
        pairs = ((paper_cells.get(loader), own_cells.get(loader)) for loader in LOADERS)
        cells.append([label, *(" / ".join(filter(None, pair)) for pair in pairs)])
    return study.markdown(cells, ["", *LOADERS], form=form)


def packing_table(packed: pd.DataFrame) -> str:
    """Tabulate padding and deletion in full."""
    lines = [
        ("`T_max`", packed.t_max, 0),
        ("padded slots per epoch: the paper", paper_figures("padding"), 0),
        ("ours", packed.padding, 0),
        ("the least possible for the frames kept", packed.lower_bound_padding, 0),
        ("deleted frames per epoch: the paper", paper_figures("deleted"), 0),
        ("ours", packed.deleted, 0),
        ("blocks", packed.blocks, 1),
        ("repeated pairs", packed.repeat_share, 5),
        ("nats shared by partners", packed.partner_information, 5),
    ]
    rows = [
        [name, *(Interval(figure).text(digits) for figure in figures.astype(float))]
        for name, figures, digits in lines
    ]
    return study.markdown(rows, ["", *LOADERS])


def comparisons(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return runs by the table that they are in; some are in two, and loaders may be missing."""
    epochs = runs[runs["train.slots"].isna()] if "train.slots" in runs else runs
    equal, work = epochs[epochs[SLOTS] == runs[SLOTS].mode()[0]], runs.drop(epochs.index)
    parts = {"equal epochs": equal}
    if len(work):  # the 5 epochs of loaders without runs at equal work are as near to it
        parts["equal work"] = pd.concat([work, equal[~equal[LOADER].isin(work[LOADER])]])
    for name, count in (("one per step", 1), ("four per step", 4)):
        held = epochs[epochs[SLOTS] // epochs.t_max == count]
        if {"sampling", "bload"} <= {*held[LOADER]}:
            parts[name] = held
    return parts


def split_ways(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield runs alike in all but the seed: their loader, what else differs there, and the runs."""
    groups = ("loader.", "model.", "dataset.", "train.", "loss.")
    same = (LOADER, "loader.clips", SEED, "dataset.root")
    keys = [key for key in runs if key.startswith(groups) and key not in same]
    clips = runs.get("loader.clips", runs[LOADER])
    runs = runs.assign(way=runs[LOADER].mask(clips == "all", runs[LOADER] + " clips=all"))
    order = runs[LOADER].map([*PACKERS].index)
    runs = runs.assign(order=order).sort_values(["order", "way", "epochs"], kind="stable")
    differ = runs[keys].astype(str).groupby([runs.way, runs.epochs]).nunique().max() > 1
    names = runs.way
    for key in differ.index[differ]:
        names = names + f", {key}=" + runs[key].astype(str)
    for (name, _), seeds in runs.groupby([names, runs.epochs], sort=False):
        yield name, seeds


def recall_table(runs: pd.DataFrame, title: str, timed: bool = False) -> str:
    """Tabulate Recall@20 beside the work it took, and `bload` minus each of the others, by seed."""
    rows, budget = [], find_budget(runs)
    ways = {(name, way.epochs.iloc[0]): way.set_index(SEED) for name, way in split_ways(runs)}
    bloads = [way for way, seeds in ways.items() if seeds[LOADER].iloc[0] == "bload"]
    base = ways[bloads[0]] if len(bloads) == 1 else runs[:0]
    others = {way: seeds for way, seeds in ways.items() if seeds is not base}
    gains = corrected(base.recall - seeds.recall for seeds in others.values())
    less = dict(zip(others, gains, strict=True))
    for way, seeds in ways.items():
        row = [way[0], *(f"{seeds[key].mean():,.0f}" for key in ("epochs", "all_steps", "slots"))]
        row += [f"{100 * (seeds.slots.mean() / budget - 1):+.1f} %"] if budget else []
        row += [f"{seeds.train_seconds.mean():,.0f}"] if timed else []
        row += [f"{seeds['train.lr'].iloc[0]:g}", f"{len(seeds)}"]
        row += [student(seeds.recall).text(), less.get(way, ""), student(seeds.remembered).text()]
        rows.append([*row, signed(base.remembered - seeds.remembered) if way in less else ""])
    heads = ["epochs", "steps", "slots", *([f"slots, against {budget:,.0f}"] if budget else [])]
    heads += [*(["seconds"] if timed else []), "rate", "seeds", f"Recall@20, {name_splits(runs)}"]
    difference = "`bload` minus this row"
    return study.markdown(rows, [title, *heads, difference, "needs memory", difference])


def draw(panels: dict[str, pd.DataFrame], folder: Path, figure: Figure) -> None:
    """Draw panels of runs by title, by epoch and by slots: means of seeds, lowest to highest."""
    curves = read_curves(folder).dropna(subset="recall")
    curves["thousand slots"] = curves.processed / 1000
    axes = figure.subplots(1, 2, sharey=True)
    axes[0].set_ylabel("Recall@20, %")
    units = ("epoch", "thousand slots")
    for axis, unit, (title, runs) in zip(axes, units, panels.items(), strict=True):
        for name, seeds in split_ways(runs):
            points = curves[curves.run.isin(seeds.run)].groupby("epoch")
            x, y, colour = points[unit].mean(), points.recall, colour_of(seeds[LOADER].iloc[0])
            look = "o--" if "clips=all" in name else "o-"
            axis.plot(x, y.mean(), look, ms=4, color=colour, label=label_of(name))
            axis.fill_between(x, y.min(), y.max(), color=colour, alpha=0.15, lw=0)
            if name == "naive" and unit != "epoch":
                words = f"{len(x)} epoch" + "s" * (len(x) > 1)
                below = y.mean().iloc[-1] - 4
                axis.text(x.iloc[-1], below, words, color=colour, ha="center", va="top")
        axis.set(xlabel=unit, title=title, ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))


@study.exit_on_input_error()
def main() -> None:
    parser = study.make_parser("paper_table", __doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: the committed ones")
    parser.add_argument("--latex", action="store_true", help="print the first table in LaTeX")
    args = parser.parse_args()
    committed, folder = args.folder is None, args.folder or study.RESULTS / "paper_table"
    parts, packed = comparisons(read_runs(folder)), pack()
    rows = overview(packed, parts, committed)
    if args.latex:
        return print(overview_table(rows, "latex_booktabs"))
    first = overview_table(rows, "pipe", link=committed)
    if (work := parts.get("equal work")) is not None:
        budget = find_budget(work)
        naive = work[(work[LOADER] == "naive") & (work["train.slots"] == budget)].slots.mean()
        first += f"\n\nEqual work is {budget:,.0f} slots, rounded to whole epochs. "
        first += f"`naive` takes {naive:,.0f}: one whole epoch."
    study.publish("paper_table", first, committed=committed, document=study.README)
    study.publish("paper_table packing", packing_table(packed), committed=committed)
    tables = [recall_table(runs, title, timed=not committed) for title, runs in parts.items()]
    chart = "![Recall@20 at equal epochs, and at equal work](../charts/paper_table.svg)"
    study.publish("paper_table", "\n\n".join([chart, *tables]), committed=committed)
    if "equal work" in parts:
        panels = {title: parts[title] for title in ("equal epochs", "equal work")}
        path = (args.folder or study.CHARTS) / "paper_table.svg"
        title = "Packing beats sampling at equal epochs, not at equal work" if committed else ""
        study.save_chart(path, title, partial(draw, panels, folder))


if __name__ == "__main__":
    main()

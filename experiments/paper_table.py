"""The paper's table beside ours: padding, deletion, time of an epoch, Recall@20.

    python train.py experiment=paper_table               # and the others in its file
    python -m experiments.paper_table [FOLDER] [--latex]

Runs have equal epochs or equal work, and equal slots, one or four blocks or clips in a step. Each
has the learning rate that `experiments.rates` chose. Judged: `bload` less each other loader, by
seed, with Holm's correction within a table (docs/LOG.md, "The headline, again"). What is padded
and deleted is of Action Genome's lengths, whatever was trained. Times and work to the same
Recall@20 are those of `experiments.epoch_time` and `experiments.convergence`. Seconds of the
committed runs are left out: other jobs ran beside them.

Without FOLDER it rewrites the README's table too. With one it compares the runs there, such as
those of ``experiment=full_size``. ``--latex`` prints the first table, for a paper with booktabs.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bload import action_genome_lengths
from bload.packing.packers import PACKERS
from bload.show.draw import colour_of, label_of
from bload.show.table import table_rows
from experiments import convergence, paper
from experiments.intervals import Interval, corrected, ratio, signed, student
from experiments.runs import read_curves, read_on, read_runs
from experiments.study import (
    CHARTS,
    RESULTS,
    ROOT,
    command,
    markdown,
    publish,
    read_rows,
    refusal,
    save_chart,
)

LOADER, SEED, SLOTS = "loader.name", "train.seed", "train.batch_slots"
LOADERS = ["naive", "sampling", "sampling clips=all", "mix", "bload", "bload_exact"]
Figures = dict[str, Interval]
"""By loader."""


class Row(NamedTuple):
    """A row of the first table: the paper's figures and ours."""

    name: str
    section: str
    """Of docs/results.md."""
    what: str
    """The figures of the paper that `paper` holds or follows from, a key of `paper.NAMES`."""
    paper: Figures
    ours: Figures
    digits: int


def packing() -> pd.DataFrame:
    """Action Genome's training lengths under each loader, and the paper's figures (`_paper`)."""
    ours = pd.DataFrame(table_rows(action_genome_lengths("train"), epochs=20, randomness=True))
    theirs = {
        f"{what}_paper": {name: paper.figure(name, what) for name in LOADERS}
        for what in paper.NAMES
    }
    return ours.set_index("loader").loc[LOADERS].join(pd.DataFrame(theirs))


def overview(packed: pd.DataFrame, parts: dict[str, pd.DataFrame], committed: bool) -> list[Row]:
    """The first table; figures that other studies committed stand only beside committed runs."""
    faster = _known(packed.minutes_paper["naive"] / packed.minutes_paper)
    recalls = "recall20-of-the-loaders"
    rows = [
        Row(f"{name} per epoch", "padding-and-deletion", what, _known(theirs), _known(ours), 0)
        for name, what, theirs, ours in (
            ("padded frames", "padding", packed.padding_paper, packed.padding),
            ("deleted frames", "deleted", packed.deleted_paper, packed.deleted),
        )
    ]
    if committed:
        speed = "speed of an epoch, naive = 1"
        rows.append(Row(speed, "time-of-an-epoch", "minutes", faster, speeds(), 2))
    equal = "Recall@20, equal epochs, equal slots per step"
    theirs = _known(packed.recall_at_20_paper)
    rows.append(Row(equal, recalls, "recall_at_20", theirs, _reached(parts["equal epochs"]), 1))
    if (work := parts.get("equal work")) is not None:
        naive = work[(work[LOADER] == "naive") & (work["train.slots"] == _budget(work))]
        short = f"naive on {1 - naive.slots.mean() / _budget(work):.0%} fewer slots"
        rows.append(Row(f"Recall@20, equal work ({short})", recalls, "", {}, _reached(work), 1))
    if committed:
        level, shares = same_recall()
        share = f"slots until {level:.1f} % Recall@20, naive = 1"
        rows.append(Row(share, "long-training", "", {}, shares, 2))
    return rows


def _known(figures: pd.Series) -> Figures:
    return {str(name): Interval(float(of)) for name, of in figures.dropna().items()}


def _reached(runs: pd.DataFrame) -> Figures:
    if budget := _budget(runs):
        runs = runs[runs["train.slots"].fillna(budget) == budget]
    return {way: student(mine.recall) for way, mine in ways(runs)}


def _budget(runs: pd.DataFrame) -> float:
    slots = runs.get("train.slots", pd.Series(dtype=float)).dropna()
    return float(slots.mode()[0]) if len(slots) else 0


def speeds() -> Figures:
    """Time of an epoch as last measured, naive's over each."""
    turns = read_rows(RESULTS / "epoch_time.csv")
    turns = turns[turns.measured == turns.measured[0]]
    epoch = {name: of.seconds_a_step * of.steps for name, of in turns.groupby("loader")}
    return {name: ratio(epoch["naive"], of) for name, of in epoch.items()}


def same_recall() -> tuple[float, Figures]:
    """The common level of long training in percent, and the share of naive's slots to it."""
    _, curves = convergence.read(RESULTS / "convergence")
    level = convergence.common_level(curves)
    slots = convergence.to_level(level, curves)
    return level, {name: ratio(slots[name], slots.naive) for name in LOADERS if name in slots}


def table_of(rows: list[Row], form: str, link: bool = False) -> str:
    """Measures down and loaders across, the paper's figure / ours; sections are linked."""
    cells = []
    for name, section, what, theirs, ours, digits in rows:
        label = f"[{name}](docs/results.md#{section})" if link else name
        cells.append([label])
        for loader in LOADERS:
            known = [
                f"{of[loader].mean:,.{digits if of[loader].mean != 1 else 0}f}"
                + "*" * (of is theirs and paper.is_remembered(loader, what))
                for of in (theirs, ours)
                if loader in of
            ]
            cells[-1].append(" / ".join(known))
    return markdown(cells, ["", *LOADERS], form=form)


def packing_table(packed: pd.DataFrame) -> str:
    """Padding and deletion in full."""
    lines = [
        ("`T_max`", packed.t_max, 0),
        ("padded frames per epoch: the paper", packed.padding_paper, 0),
        ("ours", packed.padding, 0),
        ("the least possible for the frames kept", packed.lower_bound_padding, 0),
        ("deleted frames per epoch: the paper", packed.deleted_paper, 0),
        ("ours", packed.deleted, 0),
        ("blocks", packed.blocks, 1),
        ("repeated pairs", packed.repeat_share, 5),
        ("nats shared by partners", packed.partner_information, 5),
    ]
    rows = [
        [name, *(Interval(of).text(digits) for of in figures.astype(float))]
        for name, figures, digits in lines
    ]
    return markdown(rows, ["", *LOADERS])


def comparisons(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Runs by the table that they are in; some are in two, and loaders in one may be missing."""
    epochs = runs[runs["train.slots"].isna()] if "train.slots" in runs else runs
    held, equal = epochs[SLOTS] // epochs.t_max, epochs[epochs[SLOTS] == runs[SLOTS].mode()[0]]
    parts = {"equal epochs": equal}
    work = runs.drop(epochs.index)
    if len(work):  # the 5 epochs of loaders without runs at equal work are as near to it
        parts["equal work"] = pd.concat([work, equal[~equal[LOADER].isin(work[LOADER])]])
    steps = {"one per step": epochs[held == 1], "four per step": epochs[held == 4]}
    return parts | {
        name: of for name, of in steps.items() if {"sampling", "bload"} <= {*of[LOADER]}
    }


def ways(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Runs alike in all but the seed, after their loader, what else differs there, and epochs."""
    groups = ("loader.", "model.", "dataset.", "train.", "loss.")
    same = (LOADER, "loader.clips", SEED, "dataset.root")
    keys = [key for key in runs if key.startswith(groups) and key not in same]
    clips = runs.get("loader.clips", runs[LOADER])
    way = runs[LOADER].mask(clips == "all", runs[LOADER] + " clips=all")
    runs = pd.concat([runs, way.rename("way")], axis=1).sort_values(["way", "epochs"])
    runs = runs.sort_values(LOADER, key=lambda of: of.map([*PACKERS].index), kind="stable")
    differ = runs[keys].astype(str).groupby([runs.way, runs.epochs]).nunique().max() > 1
    names = runs.way
    for key in differ.index[differ]:
        names = names + f", {key}=" + runs[key].astype(str)
    for (name, _), mine in runs.groupby([names, runs.epochs], sort=False):
        yield name, mine


def recall_table(runs: pd.DataFrame, what: str, timed: bool = False) -> str:
    """Recall@20 beside the work it took, and `bload` less each of the others, by seed."""
    rows, budget = [], _budget(runs)
    every = {(name, mine.epochs.iloc[0]): mine.set_index(SEED) for name, mine in ways(runs)}
    bloads = [way for way, mine in every.items() if mine[LOADER].iloc[0] == "bload"]
    base = every[bloads[0]] if len(bloads) == 1 else runs[:0]
    others = {way: mine for way, mine in every.items() if mine is not base}
    gains = corrected(base.recall - mine.recall for mine in others.values())
    less = dict(zip(others, gains, strict=True))
    for way, mine in every.items():
        work = [f"{mine[key].mean():,.0f}" for key in ("epochs", "all_steps", "slots")]
        work += [f"{100 * (mine.slots.mean() / budget - 1):+.1f} %"] if budget else []
        work += [f"{mine.train_seconds.mean():,.0f}"] if timed else []
        work += [f"{mine['train.lr'].iloc[0]:g}", f"{len(mine)}"]
        memory = signed(base.remembered - mine.remembered) if way in less else ""
        recalls = [student(mine[key]).text() for key in ("recall", "remembered")]
        rows.append([way[0], *work, recalls[0], less.get(way, ""), recalls[1], memory])
    heads = ["epochs", "steps", "slots", *([f"less {budget:,.0f}"] if budget else [])]
    heads += [*(["seconds"] if timed else []), "rate", "seeds", f"Recall@20, {read_on(runs)}"]
    return markdown(rows, [what, *heads, "`bload` less it", "remembered", "`bload` less it"])


def draw(panels: dict[str, pd.DataFrame], folder: Path, figure: Figure) -> None:
    """Means over seeds, from the lowest to the highest: panels of runs by title, by epoch first."""
    curves = read_curves(folder).dropna(subset="recall")
    curves["thousand slots"] = curves.processed / 1000
    axes = figure.subplots(1, 2, sharey=True)
    axes[0].set_ylabel("Recall@20, %")
    alongs = ("epoch", "thousand slots")
    for axis, along, (title, runs) in zip(axes, alongs, panels.items(), strict=True):
        for name, mine in ways(runs):
            points = curves[curves.run.isin(mine.run)].groupby("epoch")
            x, y, colour = points[along].mean(), points.recall, colour_of(mine[LOADER].iloc[0])
            look = "o--" if "clips=all" in name else "o-"
            axis.plot(x, y.mean(), look, ms=4, color=colour, label=label_of(name))
            axis.fill_between(x, y.min(), y.max(), color=colour, alpha=0.15, lw=0)
            if name == "naive" and along != "epoch":
                words = f"{len(x)} epoch" + "s" * (len(x) > 1)
                axis.text(x.iloc[-1], y.mean().iloc[-1] + 4, words, color=colour, ha="right")
        axis.set(xlabel=along, title=title, ylim=(0, None))
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))


@refusal()
def main() -> None:
    parser = command("paper_table", __doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of runs; default: the committed ones")
    parser.add_argument("--latex", action="store_true", help="print the first table in LaTeX")
    args = parser.parse_args()
    committed, folder = args.folder is None, args.folder or RESULTS / "paper_table"
    parts, packed = comparisons(read_runs(folder)), packing()
    rows = overview(packed, parts, committed)
    if args.latex:
        return print(table_of(rows, "latex_booktabs"))
    first = table_of(rows, "pipe", link=committed)
    publish("paper_table", first, committed=committed, document=ROOT / "README.md")
    publish("paper_table packing", packing_table(packed), committed=committed)
    tables = [recall_table(of, title, timed=not committed) for title, of in parts.items()]
    chart = "![Recall@20 at equal epochs, and at equal work](charts/paper_table.svg)"
    publish("paper_table", "\n\n".join([chart, *tables]), committed=committed)
    if "equal work" in parts:
        panels = {title: parts[title] for title in ("equal epochs", "equal work")}
        path = (args.folder or CHARTS) / "paper_table.svg"
        title = "Packing beats sampling at equal epochs, not at equal work" if committed else ""
        save_chart(path, title, partial(draw, panels, folder))


if __name__ == "__main__":
    main()

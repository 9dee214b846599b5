"""The paper's table with ours beside it, and what stands behind our figures."""

from bload.table import PAPER, PaperRow
from experiments.report.collect import Collection, Run
from experiments.report.comparison import Comparable
from experiments.report.curves import last_before
from experiments.report.document import (
    NOTHING,
    Block,
    Cell,
    Missing,
    Section,
    Table,
    interval,
    number,
)
from experiments.report.measured import (
    MEMORY,
    MEMORY_OF,
    NO,
    WITH,
    Compared,
    count_of,
    epoch_times,
    equal_epochs,
    equal_work,
    full_size,
    mean_figure,
    recalls,
)
from experiments.report.names import epochs_text, in_order, loader_name
from experiments.report.overview import overview
from experiments.report.statistics import difference, estimate
from experiments.report.turns import turns, turns_table


def paper_section(collection: Collection) -> Section:
    """The table, then times, Recall@20 and padding of the runs behind it."""
    epochs, work, seconds = (make(collection) for make in (equal_epochs, equal_work, epoch_times))
    in_turns = turns(collection)
    blocks: list[Block] = [overview(epochs, work, in_turns or seconds)]
    if in_turns:
        blocks.append(turns_table(in_turns))
    if seconds:
        blocks.append(_time_table(seconds, "Time of an epoch"))
    else:
        blocks.append(_missing("epoch times", "epoch_time"))
    whole = full_size(collection)
    if whole:
        blocks.append(_time_table(whole, "Time of an epoch with model=dds"))
    else:
        blocks.append(_missing("times with model=dds (ResNet-50) on a GPU", "full_size"))
    if epochs:
        blocks += [_recall_table(epochs, "equal epochs"), _cost_table(epochs)]
    else:
        blocks.append(_missing("Recall@20 at equal epochs", "paper_table"))
    if work:
        blocks.append(_recall_table(work, "equal work"))
        blocks.append(_at_one_time(work))
    else:
        blocks.append(_missing("Recall@20 at equal work", "paper_table_equal_time"))
    return Section("paper", "The paper's table and ours", tuple(blocks))


def _missing(what: str, experiment: str) -> Missing:
    return Missing(
        f"No finished runs here give {what}.", f"python train.py -m experiment={experiment}"
    )


def _time_table(seconds: Compared, title: str) -> Table:
    rows = []
    groups = seconds.by_loader
    for loader in in_order(groups):
        runs = groups[loader]
        paper = PAPER.get(loader, PaperRow()).minutes
        rows.append(
            (
                Cell(loader_name(loader)),
                count_of(runs, seconds.failed.get(loader, [])),
                number(sum(run.summary["epochs"] for run in runs)),
                interval(estimate([run.summary["epoch_seconds"] for run in runs])),
                interval(seconds.faster_than_naive(loader), 2),
                number(seconds.less_work_than_naive(loader), 2),
                number(PAPER["naive"].minutes / paper, 2) if paper else NOTHING,
                mean_figure(runs, "frames_per_second"),
                mean_figure(runs, "peak_memory_mib"),
            )
        )
    rows += _failed_rows(seconds, set(groups), 9)
    return Table(
        title,
        (
            *("loader", "runs", "epochs", "seconds an epoch"),
            *("times faster than naive", "by frames processed", "paper"),
            *("frames a second", "peak memory, MiB"),
        ),
        tuple(rows),
        f"`{seconds.experiment.name}`: {seconds.setting}; a data set of "
        f"{seconds.runs.runs[0].frames:,.0f} frames. Seconds are the median epoch of a run, "
        "training alone; runs come one after another, so what else the machine does meets some "
        f"and not others. Frames a second are those trained on, without padding. {MEMORY_OF} "
        f"{limit_text(seconds)} {seconds.runs.note}".strip(),
    )


def limit_text(seconds: Compared) -> str:
    """The fewest frames that packing without deletion can process on the lengths of these runs."""
    naive = seconds.by_loader.get("naive")
    if not naive:
        return "Without runs of naive there is no ratio."
    figures = naive[0].summary
    fewest = -(-naive[0].frames // figures["t_max"]) * figures["t_max"]
    return (
        "On these lengths packing that deletes nothing can process "
        f"{figures['processed'] / fewest:.2f} times fewer frames than naive."
    )


def _recall_table(compared: Compared, at: str) -> Table:
    shown = Comparable((*compared.runs.runs, *compared.stand_ins), ())
    groups = shown.by(lambda run: (run.loader, run.summary["epochs"]))
    base = {loader: compared.by_loader.get(loader, []) for loader in ("sampling", "naive")}

    def minus(runs: list[Run], loader: str, key: str = WITH) -> Cell:
        if not base[loader] or runs[0].loader == loader:
            return NOTHING
        ones, others = recalls(runs, key), recalls(base[loader], key)
        return interval(difference(ones, others), sign=True) if ones and others else NOTHING

    rows = []
    loaders = in_order({loader for loader, _ in groups})
    for loader, epochs in sorted(groups, key=lambda one: (loaders.index(one[0]), one[1])):
        runs = groups[loader, epochs]
        values = recalls(runs)
        spread = estimate(values)
        rows.append(
            (
                Cell(f"{loader_name(loader)}, {epochs_text(int(epochs))}"),
                mean_figure(runs, "steps"),
                count_of(runs, compared.failed.get(loader, [])),
                interval(spread),
                number(spread.deviation, 2),
                minus(runs, "sampling"),
                minus(runs, "naive"),
                *(_recall(runs, key) for key in (NO, MEMORY)),
                minus(runs, "sampling", MEMORY),
                number(estimate([run.summary["train_seconds"] for run in runs]).mean),
            )
        )
    paper = PAPER["bload"].recall_at_20 - PAPER["sampling"].recall_at_20
    rows += _failed_rows(compared, {loader for loader, _ in groups}, 11)
    return Table(
        f"Recall@20 at {at}",
        (
            *("loader", "steps an epoch", "seeds", "with constraint, %", "standard deviation"),
            *("minus sampling, points", "minus naive, points", "no constraint, %"),
            *("must be remembered, %", "of these, minus sampling", "training seconds"),
        ),
        tuple(rows),
        f"`{compared.experiment.name}`: {compared.setting}; 95 % intervals by Student's t, of "
        f"differences by Welch (seeds unpaired). The paper has BLoad {paper:.1f} points above "
        "sampling (43.3 and 41.2). A step has as many slots for every loader, so a loader with "
        f"fewer slots an epoch takes fewer steps. {_budget(compared)}{compared.runs.note}".strip(),
    )


def _budget(compared: Compared) -> str:
    """Equal work: the whole epochs nearest to a number of slots."""
    if compared.slots is None:
        return ""
    text = f"Equal work is the whole epochs, at least one, nearest to {compared.slots:,} slots. "
    groups = compared.runs.by(lambda run: (run.loader, run.get("train.slots")))
    for loader, slots in groups:
        if slots and slots != compared.slots:
            text += f"{loader_name(loader)} was also given {slots:,}. "
    if compared.stand_ins:
        loaders = in_order({run.loader for run in compared.stand_ins})
        text += f"Of {', '.join(map(loader_name, loaders))} that is the number of epochs in "
        text += "`paper_table`, whose runs stand here. "
    return text


def _recall(runs: list, key: str) -> Cell:
    values = recalls(runs, key)
    return interval(estimate(values)) if values else NOTHING


def _at_one_time(compared: Compared) -> Table:
    """What each loader had reached when the first one was done."""
    groups = compared.by_loader
    spent = {
        loader: estimate([run.summary["train_seconds"] for run in runs]).mean
        for loader, runs in groups.items()
    }
    budget = min(spent.values())
    rows = []
    for loader in in_order(groups):
        found = [(run, last_before(run, WITH, budget)) for run in groups[loader]]
        values = [value for _, (_, value) in found if value is not None]
        epochs = [epoch for _, (epoch, value) in found if value is not None]
        rows.append(
            (
                Cell(loader_name(loader)),
                number(len(values)),
                number(estimate(epochs).mean, 1) if epochs else NOTHING,
                interval(estimate(values)) if values else NOTHING,
                number(spent[loader]),
            )
        )
    return Table(
        "Recall@20 at equal training time",
        ("loader", "seeds", "epochs until then", "with constraint, %", "seconds of all epochs"),
        tuple(rows),
        f"The runs at equal work, as they stood after {budget:,.0f} seconds of training, when the "
        "first loader was done: the last evaluation until then, with the learning rate not yet "
        "at its end for the others. Seconds as measured, on whatever else the machine did.",
    )


def _failed_rows(compared: Compared, shown: set[str], columns: int) -> list[tuple[Cell, ...]]:
    """Loaders all of whose runs failed: a row that says so."""
    return [
        (
            Cell(loader_name(loader)),
            Cell(f"failed: {runs[0].says}", tone="bad"),
            *[NOTHING] * (columns - 2),
        )
        for loader, runs in compared.failed.items()
        if loader not in shown
    ]


def _cost_table(compared: Compared) -> Table:
    rows = []
    groups = compared.by_loader
    for loader in in_order(groups):
        mean = {
            key: estimate([run.summary[key] for run in groups[loader]]).mean
            for key in ("t_max", "padding", "deleted", "frames", "processed")
        }
        rows.append(
            (
                Cell(loader_name(loader)),
                *(number(mean[key]) for key in ("t_max", "padding", "deleted", "processed")),
                number(100 * mean["padding"] / mean["processed"], 1),
            )
        )
    frames = compared.runs.runs[0].frames
    return Table(
        "Padding and deletion in these runs",
        ("loader", "T_max", "padded", "deleted", "processed", "padding, % of the work"),
        tuple(rows),
        f"`{compared.experiment.name}`: means over epochs and seeds of its own data set of "
        f"{frames:,.0f} training frames, not Action Genome's lengths.",
    )

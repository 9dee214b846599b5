"""The paper's table with ours beside it, and what stands behind our figures."""

from bload.paper import PAPER, PaperRow
from bload.report.collect import Collection
from bload.report.comparison import Comparable
from bload.report.document import (
    NOTHING,
    Block,
    Cell,
    Missing,
    Section,
    Table,
    interval,
    number,
)
from bload.report.measured import (
    MEMORY,
    MEMORY_OF,
    NO,
    Compared,
    epoch_times,
    equal_epochs,
    equal_time,
    full_size,
    mean_figure,
    recalls,
)
from bload.report.names import epochs_text, in_order, loader_name
from bload.report.overview import overview
from bload.report.statistics import difference, estimate


def paper_section(collection: Collection) -> Section:
    """The table, then times, Recall@20 and padding of the runs behind it."""
    epochs, time, seconds = (make(collection) for make in (equal_epochs, equal_time, epoch_times))
    blocks: list[Block] = [overview(epochs, time, seconds)]
    if seconds:
        blocks.append(_time_table(seconds, "Time of an epoch"))
    else:
        blocks.append(_missing("epoch times", "epoch_time"))
    whole = full_size(collection)
    if whole:
        blocks.append(_time_table(whole, "Time of an epoch with ResNet-50"))
    else:
        blocks.append(_missing("times with model=dds (ResNet-50), meant for a GPU", "full_size"))
    if epochs:
        blocks += [_recall_table(epochs, "equal epochs"), _cost_table(epochs)]
    else:
        blocks.append(_missing("Recall@20 at equal epochs", "paper_table"))
    if time:
        blocks.append(_recall_table(time, "equal training time"))
    else:
        blocks.append(_missing("Recall@20 at equal training time", "paper_table_equal_time"))
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
                number(len(runs)),
                number(sum(run.summary["epochs"] for run in runs)),
                interval(estimate([run.summary["epoch_seconds"] for run in runs])),
                interval(seconds.faster_than_naive(loader), 2),
                number(seconds.less_work_than_naive(loader), 2),
                number(PAPER["naive"].minutes / paper, 2) if paper else NOTHING,
                mean_figure(runs, "frames_per_second"),
                mean_figure(runs, "peak_memory_mib"),
            )
        )
    one = seconds.runs.runs[0].summary
    return Table(
        title,
        (
            *("loader", "runs", "epochs", "seconds an epoch"),
            *("times faster than naive", "by frames processed", "paper"),
            *("frames a second", "peak memory, MiB"),
        ),
        tuple(rows),
        f"`{seconds.experiment.name}`: {seconds.setting}; {one['frames']:,.0f} frames an epoch. "
        "Seconds are the median epoch of a run, training alone; frames those of the data set, "
        f"without padding. {MEMORY_OF} "
        f"{limit_text(seconds)} {seconds.runs.note}".strip(),
    )


def limit_text(seconds: Compared) -> str:
    """The most that packing can gain on the lengths of these runs."""
    naive = seconds.by_loader.get("naive")
    if not naive:
        return "Without runs of naive there is no ratio."
    figures = naive[0].summary
    fewest = -(-figures["frames"] // figures["t_max"]) * figures["t_max"]
    return f"On these lengths packing can be {figures['processed'] / fewest:.2f} times faster."


def _recall_table(compared: Compared, at: str) -> Table:
    shown = Comparable((*compared.runs.runs, *compared.stand_ins), ())
    groups = shown.by(lambda run: (run.loader, run.summary["epochs"]))
    sampling = recalls(compared.by_loader.get("sampling", []))
    rows = []
    for loader in in_order({loader for loader, _ in groups}):
        for (name, epochs), runs in groups.items():
            if name != loader:
                continue
            values = recalls(runs)
            spread = estimate(values)
            between = NOTHING
            if sampling and loader != "sampling":
                between = interval(difference(values, sampling), sign=True)
            rows.append(
                (
                    Cell(f"{loader_name(loader)}, {epochs_text(int(epochs))}"),
                    number(len(runs)),
                    interval(spread),
                    number(spread.deviation, 2),
                    between,
                    *(_recall(runs, key) for key in (NO, MEMORY)),
                    number(estimate([run.summary["train_seconds"] for run in runs]).mean),
                )
            )
    paper = PAPER["bload"].recall_at_20 - PAPER["sampling"].recall_at_20
    return Table(
        f"Recall@20 at {at}",
        (
            *("loader", "seeds", "with constraint, %", "standard deviation"),
            *("minus sampling, points", "no constraint, %", "must be remembered, %"),
            "training seconds",
        ),
        tuple(rows),
        f"`{compared.experiment.name}`: {compared.setting}; 95 % intervals by Student's t, of "
        f"differences by Welch (seeds unpaired). The paper has BLoad {paper:.1f} points above "
        f"sampling (43.3 and 41.2). {_budget(compared)}{compared.runs.note}".strip(),
    )


def _budget(compared: Compared) -> str:
    """Equal time is equal work: the whole epochs nearest to a number of slots."""
    counts = [run.get("train.slots") for run in compared.runs.runs]
    slots = sorted({count for count in counts if isinstance(count, int)})
    if not slots:
        return ""
    given = " or ".join(f"{count:,}" for count in slots)
    text = f"Every loader has the whole epochs, at least one, nearest to {given} slots. "
    if compared.stand_ins:
        loaders = in_order({run.loader for run in compared.stand_ins})
        text += f"Of {', '.join(map(loader_name, loaders))} that is the number of epochs in "
        text += "`paper_table`, whose runs stand here. "
    return text


def _recall(runs: list, key: str) -> Cell:
    values = recalls(runs, key)
    return interval(estimate(values)) if values else NOTHING


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
    frames = compared.runs.runs[0].summary["frames"]
    return Table(
        "Padding and deletion in these runs",
        ("loader", "T_max", "padded", "deleted", "processed", "padding, % of the work"),
        tuple(rows),
        f"`{compared.experiment.name}`: means over epochs and seeds of its own data set of "
        f"{frames:,.0f} training frames, not Action Genome's lengths.",
    )

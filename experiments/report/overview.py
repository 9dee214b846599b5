"""The paper's one table with ours: measures down, loaders across, as the paper has it."""

from collections.abc import Mapping
from itertools import accumulate

from bload.table import NOT_DERIVABLE, PAPER, PaperRow
from experiments.report.document import NOTHING, Cell, Table, interval, number, signed
from experiments.report.measured import Compared
from experiments.report.names import LOADERS
from experiments.report.packing import COMMAND, EPOCHS, packed_action_genome
from experiments.report.turns import Turns

Row = tuple[Cell, ...]
PAPERS = {loader: PAPER.get(loader, PaperRow()) for loader in LOADERS}


Times = Compared | Turns


def overview(epochs: Compared | None, work: Compared | None, seconds: Times | None) -> Table:
    """The paper's figure, ours and what lies between, a group of rows a measure."""
    packed = packed_action_genome()
    groups = [
        _counts(
            "Padded frames",
            {loader: row.padding for loader, row in PAPERS.items()},
            {loader: packed[loader].padding for loader in LOADERS},
        ),
        _counts(
            "Deleted frames",
            {loader: row.deleted for loader, row in PAPERS.items()},
            {loader: packed[loader].deleted for loader in LOADERS},
        ),
        _counts(
            "Frames processed",
            {loader: _processed(row, packed[loader].frames) for loader, row in PAPERS.items()},
            {loader: packed[loader].processed for loader in LOADERS},
        ),
        _times(seconds),
        _recalls(epochs, work),
    ]
    begins = accumulate(len(group) for group in groups[:-1])
    return Table(
        "The paper's one table, with ours",
        ("measure", *LOADERS.values()),
        tuple(row for group in groups for row in group),
        _note(epochs, work, seconds),
        frozenset(begins),
    )


def _row(name: str, cells: Mapping[str, Cell]) -> Row:
    return (Cell(name), *(cells.get(loader, NOTHING) for loader in LOADERS))


def _processed(row: PaperRow, frames: int) -> int | None:
    """It follows from the paper's padding and deletion."""
    if row.padding is None or row.deleted is None:
        return None
    return frames + row.padding - row.deleted


def _counts(name: str, paper: Mapping[str, float | None], ours: Mapping[str, float]) -> list[Row]:
    between = {
        loader: signed(ours[loader] - figure)
        for loader, figure in paper.items()
        if figure is not None
    }
    return [
        _row(f"{name}: paper", {loader: number(figure) for loader, figure in paper.items()}),
        _row(f"{name}: ours", {loader: number(figure) for loader, figure in ours.items()}),
        _row(f"{name}: ours - paper", between),
    ]


def _times(seconds: Times | None) -> list[Row]:
    minutes = {loader: row.minutes for loader, row in PAPERS.items() if row.minutes}
    faster = {loader: minutes["naive"] / figure for loader, figure in minutes.items()}
    rows = [
        _row("Minutes an epoch: paper", {loader: number(m) for loader, m in minutes.items()}),
        _row("Times faster than naive: paper", {k: number(v, 2) for k, v in faster.items()}),
    ]
    if seconds is None:
        return rows
    found = {loader: seconds.faster_than_naive(loader) for loader in LOADERS}
    ours = {loader: figure for loader, figure in found.items() if figure}
    cells = {k: interval(v, 2) for k, v in ours.items()}
    if not seconds.has_action_genomes_lengths:
        return [*rows, _row("Times faster than naive: ours, other lengths", cells)]
    between = {k: number(v.mean / faster[k], 2) for k, v in ours.items() if k in faster}
    return [
        *rows,
        _row("Times faster than naive: ours", cells),
        _row("Times faster than naive: ours / paper", between),
    ]


def _recalls(epochs: Compared | None, work: Compared | None) -> list[Row]:
    paper = {loader: row.recall_at_20 for loader, row in PAPERS.items()}
    rows = [_row("Recall@20, %: paper", {k: number(v, 1) for k, v in paper.items()})]
    for when, compared in (("equal epochs", epochs), ("equal work", work)):
        if compared is None:
            continue
        found = {loader: compared.recall(loader) for loader in LOADERS}
        between = {
            loader: signed(figure.mean - paper[loader], 1)
            for loader, figure in found.items()
            if figure and paper[loader]
        }
        rows += [
            _row(f"Recall@20, {when}: ours", {k: _recall(compared, k) for k in LOADERS}),
            _row(f"Recall@20, {when}: ours - paper", between),
        ]
    return rows


def _recall(compared: Compared, loader: str) -> Cell:
    if loader not in compared.by_loader and loader in compared.failed:
        return Cell("failed", tone="bad")
    return interval(compared.recall(loader))


def _note(epochs: Compared | None, work: Compared | None, seconds: Times | None) -> str:
    exact, naive = (packed_action_genome()[name] for name in ("bload_exact", "naive"))
    notes = [
        "Padding, deletion and frames processed (which follow from the two) are ours on Action "
        f"Genome's real training lengths, means over {EPOCHS} epochs (`{COMMAND}`); BLoad's 3,695 "
        f"is the paper's figure: {NOT_DERIVABLE}.",
        "The minutes were measured on the paper's machine and compare as ratios alone. No packing "
        "that deletes nothing processes fewer frames than naive's divided by "
        f"{naive.processed / (exact.frames + exact.bound):.3f}, those of the fewest blocks.",
    ]
    if seconds:
        notes.append(f"Our times: `{seconds.name}`, {seconds.setting}.")
    trained = [compared for compared in (epochs, work) if compared]
    if trained:
        where = "; ".join(f"`{one.experiment.name}`, {one.setting}" for one in trained)
        notes.append(
            f"Our Recall@20, with constraint, after the last epoch: {where}. The paper's is of "
            "Action Genome and the full model; it does not say which constraint."
        )
        if any(one.is_synthetic for one in trained):
            notes.append(
                "Ours differs from it for what it was measured on: synthetic data, another model, "
                "few epochs and seeds. With so little training the number of optimiser steps "
                "weighs more, and a loader with fewer slots an epoch takes fewer."
            )
    notes.append("In brackets: 95 % intervals by Student's t, of ratios by Welch or over rounds.")
    return " ".join(notes)

"""The tables of docs/performance.md, from a record of `experiments.gpu_card`."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from tabulate import tabulate

from bload import InputError
from datasets.write_whole import write_whole
from experiments.card.record import Row

BEGIN, END = "<!-- gpu_card: begin -->", "<!-- gpu_card: end -->"
"""Markers of the place that tables are put into."""


def show(record: dict[str, Any], page: Path | None) -> None:
    """Print the tables of a record, or put them between the markers of a page.

    Raises:
        InputError: the page lacks the markers.
    """
    text = as_markdown(record)
    if page is None:
        print(text)
        return
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{page} has no lines {BEGIN} and {END}; put them where tables are to be")
    write_whole(page, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
    print(f"Written into {page}")


def as_markdown(record: dict[str, Any]) -> str:
    """All tables of a record, with what failed and what was left out."""
    parts = record["parts"]
    texts = [_about(record)]
    for name, make in TABLES.items():
        rows = parts.get(name, {}).get("rows", [])
        if rows:
            texts += make(rows)
    notes = [f"* Failed in `{part}`: {said}." for part in parts for said in parts[part]["failed"]]
    notes += [
        f"* Left out of `{part}` for lack of time: {'; '.join(parts[part]['left_out'])}."
        for part in parts
        if parts[part]["left_out"]
    ]
    return "\n\n".join([*texts, "\n".join(notes)]).rstrip()


def _about(record: dict[str, Any]) -> str:
    made = list(record["parts"].values())
    if not made:
        raise InputError("the record has no part; run python -m experiments.gpu_card")
    minutes = sum(part["seconds"] for part in made) / 60
    commits = ", ".join(sorted({(part["git"] or "unknown")[:12] for part in made}))
    text = (
        f"{record['card']}, torch {made[0]['versions']['torch']}, commit {commits}, "
        f"{minutes:.0f} minutes in all."
    )
    if record["rehearsal"]:
        text += " **A rehearsal on CPUs at a small size: its figures say nothing of speed.**"
    commands = "\n".join(dict.fromkeys(part["command"] for part in made))
    return f"{text}\n\n```bash\n{commands}\n```"


def _peak(rows: Sequence[Row]) -> Iterable[str]:
    (row,) = rows
    known = "its data sheet is not known here"
    if row["datasheet"]:
        known = f"by its data sheet {row['datasheet'] / 1e12:.0f} ({row['source']})"
    yield f"A product of bf16 matrices reaches {row['measured'] / 1e12:.3g} TFLOP/s; {known}."


def _setting(row: Row) -> str:
    return f"{'compiled' if row['compiled'] else 'eager'}, recompute {row['recompute']}"


def _throughput(rows: Sequence[Row]) -> Iterable[str]:
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        settings = list(dict.fromkeys(map(_setting, mine)))
        names = list(dict.fromkeys(row["loader"] for row in mine if "loader" in row))
        by = {(row.get("loader"), _setting(row)): row for row in mine}
        found = {
            name: [by.get((name, setting)) for setting in settings]
            for name in (*names, "bload_exact")
        }
        exact = found["bload_exact"]
        yield f"`{model}`: frames a second, in brackets as a share of bload_exact's."
        yield _table(
            ["loader", *settings],
            [[name, *_cells(found[name], _rate)] for name in names],
        )
        yield f"`{model}`: share of the card's peak FLOPs, and GiB at the peak, of bload_exact."
        yield _table(
            ["", *settings],
            [
                ["share of peak", *_cells(exact, lambda row: f"{row['share_of_peak']:.1%}")],
                ["GiB", *_cells(exact, lambda row: f"{row['peak_gib']:.2f}")],
                ["first steps, s", *_cells(exact, lambda row: f"{row['first_s']:.0f}")],
            ],
        )


def _cells(found: Sequence[Row | None], text: Callable[[Row], str]) -> list[str]:
    return ["does not fit" if row is None else text(row) for row in found]


def _rate(row: Row) -> str:
    return f"{mean(row['frames_per_s']):,.0f} ({row['of_bload_exact']:.2f})"


def _walk(rows: Sequence[Row]) -> Iterable[str]:
    yield "The temporal parts of both branches, forward and backward, in a step of bload_exact."
    yield _table(
        ["network", "slots of a block", "ms of a step", "ms of the walk", "share"],
        [
            [row["model"], "", "", "", row["skipped"]]
            if "skipped" in row
            else [
                *(row["model"], row["slots"]),
                *(f"{row['step_ms']:,.1f}", f"{row['walk_ms']:,.1f}", f"{row['share']:.1%}"),
            ]
            for row in rows
        ],
    )


def _memory(rows: Sequence[Row]) -> Iterable[str]:
    yield "The longest block that a step fits into memory with."
    yield _table(
        ["network", "recompute", "slots", "GiB", "more"],
        [
            [
                *(row["model"], row["recompute"], f"{row['slots']:,}"),
                "" if row["peak_gib"] is None else f"{row['peak_gib']:.2f}",
                f"{row['refused']:,}" if row["refused"] else "not tried",
            ]
            for row in rows
        ],
    )


def _one_rank(rows: Sequence[Row]) -> Iterable[str]:
    yield "\n".join(
        f"* `{row['model']}` under DDP ({row['backend']}, one rank): the gradients of a step are "
        + ("those without, to the bit." if row["equal"] else f"{row['difference']:.1e} of their ")
        + (
            ""
            if row["equal"]
            else f"norm off; two steps without DDP differ by {row['without']:.1e}."
        )
        for row in rows
    )


def _loss_curve(rows: Sequence[Row]) -> Iterable[str]:
    yield "\n".join(
        f"* `{row['model']}`, {len(row['losses'])} steps in float32: the losses differ from the "
        f"CPU's by at most {row['at_first']:.1e} in the first steps, and their running means by "
        f"{row['later']:.1e} later. They end at {row['losses'][-1]:.3f}."
        for row in rows
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text: str = tabulate(rows, head, "github", disable_numparse=True)
    return text


TABLES: dict[str, Callable[[Sequence[Row]], Iterable[str]]] = {
    "peak": _peak,
    "throughput": _throughput,
    "walk": _walk,
    "memory": _memory,
    "one_rank": _one_rank,
    "loss_curve": _loss_curve,
}
"""Part -> what makes paragraphs and tables of its rows."""

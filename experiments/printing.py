"""What a run says for people: a line an epoch, and the summary at the end."""

import math


def epoch_line(epoch: int, epochs: int, figures: dict) -> str:
    """One line a training epoch."""
    return (
        f"epoch {epoch:>3}/{epochs}  loss {figures['loss']:.3f}  {figures['seconds']:.1f} s  "
        f"{figures['frames_per_second']:,.0f} frames/s  padding {figures['padding']:,}  "
        f"filler {figures['filler']:,}  deleted {figures['deleted']:,}"
    )


def summary_text(summary: dict) -> str:
    """The end of a run: what it cost, what it reached, where everything is."""
    share = 100 * summary["padding"] / summary["processed"]
    starts = summary.get("starts", "table")
    ranks = "1 rank" if summary["ranks"] == 1 else f"{summary['ranks']} ranks"
    rows = [
        ("loader", f"{summary['loader']}, T_max {summary['t_max']}, {ranks}" + told_starts(starts)),
        ("padding", f"{summary['padding']:,.0f} frames an epoch ({share:.1f} % of the work)"),
        ("filler", f"{summary['filler']:,.0f} empty slots an epoch, to fill the last step"),
        ("deleted frames", f"{summary['deleted']:,.0f} an epoch"),
        (
            "epoch time",
            f"{summary['epoch_seconds']:.1f} s, the median ({summary['steps']:.0f} steps, "
            f"{summary['frames_per_second']:,.0f} frames/s, "
            f"{summary['waiting_seconds']:.1f} s waiting for data)",
        ),
        ("training time", f"{summary['train_seconds']:.0f} s, epochs: {summary['epochs']}"),
        ("peak memory", f"{summary['peak_memory_mib']:,.0f} MiB a rank"),
        *(
            (
                f"Recall@20 {constraint}",
                f"{100 * summary[f'{constraint}/recall@20']:.2f} %   "
                f"(@10 {100 * summary[f'{constraint}/recall@10']:.2f}, "
                f"@50 {100 * summary[f'{constraint}/recall@50']:.2f})",
            )
            for constraint in ("with", "semi", "no")
        ),
        *observer_rows(summary),
        ("run folder", f"{summary['folder']}  (checkpoints, metrics.jsonl, logs)"),
        ("results", summary["results"]),
    ]
    return f"\n{_table(rows)}"


def comparison(summaries: dict[str, dict | None]) -> str:
    """A line a run, for runs by what tells them apart; None is a run that failed."""
    rows = [("", "padding", "deleted", "epoch", "Recall@20 with", "of these, memory")]
    for name, figures in summaries.items():
        if figures is None:
            rows.append((name, "failed", "", "", "", ""))
            continue
        recalls = (figures.get(f"with/recall@20{part}", math.nan) for part in ("", "_memory"))
        rows.append(
            (
                name,
                f"{figures['padding']:,.0f}",
                f"{figures['deleted']:,.0f}",
                f"{figures['epoch_seconds']:.1f} s",
                *(f"{100 * recall:.2f} %" if math.isfinite(recall) else "" for recall in recalls),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *figures in rows:
        cells = [cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def observer_rows(figures: dict) -> list[tuple[str, str]]:
    """Recall@20 beside what observers reach that see all but remember all or nothing.

    Empty for real data, of which that is not known.
    """
    rows = []
    for name, ending in (("with, of all", ""), ("with, memory", "_memory")):
        keys = [f"{of}/recall@20{ending}" for of in ("with", "remembering", "memoryless")]
        if not all(math.isfinite(figures.get(key, math.nan)) for key in keys):
            continue
        model, remembering, memoryless = (100 * figures[key] for key in keys)
        rows.append(
            (
                f"Recall@20 {name}",
                f"{model:.2f} %   ({100 * model / remembering:.0f} % of the all-remembering "
                f"observer's {remembering:.2f}; memoryless observer {memoryless:.2f})",
            )
        )
    return rows


def observer_text(figures: dict) -> str:
    """Those rows as lines after an empty one, or nothing."""
    rows = observer_rows(figures)
    return f"\n{_table(rows)}\n" if rows else ""


def told_starts(starts: str) -> str:
    """How states are cleared, to be added to a sentence if it is not by the table."""
    return "" if starts == "table" else f", starts {starts}"


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)

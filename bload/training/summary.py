"""What a run says for people: a line an epoch, and the summary at the end."""


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
    ranks = "1 rank" if summary["ranks"] == 1 else f"{summary['ranks']} ranks"
    rows = [
        ("loader", f"{summary['loader']}, T_max {summary['t_max']}, {ranks}"),
        ("padding", f"{summary['padding']:,.0f} frames an epoch ({share:.1f} % of the work)"),
        ("filler", f"{summary['filler']:,.0f} empty slots an epoch, to fill the last step"),
        ("deleted frames", f"{summary['deleted']:,.0f} an epoch"),
        (
            "epoch time",
            f"{summary['epoch_seconds']:.1f} s, the median ({summary['steps']:.0f} steps, "
            f"{summary['frames_per_second']:,.0f} frames/s, "
            f"{summary['waiting_seconds']:.1f} s waiting for data)",
        ),
        ("training time", f"{summary['train_seconds']:.0f} s for {summary['epochs']} epochs"),
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
        ("run folder", f"{summary['folder']}  (checkpoints, metrics.jsonl, logs)"),
        ("results", summary["results"]),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n" + "\n".join(f"{name.ljust(width)}  {value}" for name, value in rows)

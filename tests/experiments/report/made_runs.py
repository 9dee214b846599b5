"""Folders of runs with made values, in the form in which training and its sweeps write them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

COSTS = {
    "naive": (86, 63_658, 0, 0.57),
    "sampling": (22, 0, 12_362, 0.58),
    "mix": (22, 4_991, 5_333, 0.60),
    "bload": (86, 930, 0, 0.61),
    "bload_exact": (86, 18, 0, 0.61),
}
"""Loader -> T_max, padded, deleted, and the share that its Recall@20 comes to."""
FRAMES = 22_342
RATE = 620.0
"""Slots a second."""


OPTIONS = {
    **{"naive": {"long": "error"}, "sampling": {"clips": "one", "place": "random"}},
    **{"mix": {"place": "random"}, "bload": {"long": "error", "draw": "video"}},
    **{"bload_exact": {"long": "error"}},
}
"""Keys that configs of one loader have and those of another have not."""


def config(loader: str, seed: int, **changes: Any) -> dict[str, Any]:
    """A resolved config; `changes` are ``train__starts="ignored"``."""
    made: dict[str, Any] = {
        "dataset": {"name": "synthetic", "root": "data/made", "train_videos": 1000, "seed": 0},
        "loader": {"name": loader, "t_max": None, "last": "fill", **OPTIONS[loader]},
        "loss": {"relation_weight": 4.0},
        "model": {"name": "dds_tiny", "temporal": "dds", "width": 64},
        "run": {"root": "runs", "name": None},
        "train": {
            **{"epochs": 5, "seed": seed, "starts": "table", "padding": "masked"},
            **{"slots": None, "lr": 0.0015, "batch_frames": 94},
        },
        "wandb": {"mode": "disabled"},
        "experiment": {"name": None, "kind": "train"},
    }
    for key, value in changes.items():
        group, name = key.split("__")
        made[group][name] = value
    return made


def make_run(
    folder: Path,
    loader: str,
    seed: int = 0,
    *,
    recall: float | None = None,
    frames: int = FRAMES,
    costs: tuple[int, int, int] | None = None,
    seconds: float | None = None,
    memory: bool = True,
    name: str = "",
    **changes: Any,
) -> Path:
    """One finished run; `recall` is the last Recall@20, `costs` T_max, padding and deletion."""
    t_max, padding, deleted = costs or COSTS[loader][:3]
    made = config(loader, seed, **changes)
    epochs = made["train"]["epochs"]
    random = np.random.default_rng([seed, *map(ord, loader)])
    recall = COSTS[loader][3] + 0.012 * random.standard_normal() if recall is None else recall
    processed = frames + padding - deleted
    place = folder / (name or f"{loader}-dds_tiny-synthetic-s{seed}-r1-{_tail(made)}")
    lines, cost = [], seconds or processed / RATE
    for epoch in range(epochs):
        took = cost * (1 + 0.01 * random.random())
        lines.append({"kind": "step", "epoch": epoch, "step": 20, "loss": 60.0 / (epoch + 1)})
        lines.append(
            {"kind": "epoch", "epoch": epoch, "step": 99, "seconds": took, "padding": padding}
            | {"processed": processed, "frames": frames, "deleted": deleted}
        )
        reached = recall * (1 - 0.6 ** (epoch + 1)) / (1 - 0.6**epochs)
        lines.append({"kind": "eval", "epoch": epoch, "step": 99, **_recalls(reached, memory)})
    times = [line["seconds"] for line in lines if line["kind"] == "epoch"]
    summary = {
        **{"run": place.name, "folder": str(place), "loader": loader, "t_max": t_max},
        **{"dataset": "synthetic", "model": "dds_tiny", "seed": seed, "ranks": 1},
        **{"device": "cpu", "epochs": epochs, "padding": padding, "deleted": deleted},
        **{"frames": frames - deleted, "processed": processed, "steps": processed / 94},
        **{"epoch_seconds": float(np.median(times))},
        **{"train_seconds": sum(times), "frames_per_second": (frames - deleted) / times[0]},
        "peak_memory_mib": 1234.0,
        **_recalls(recall, memory),
    }
    lines.append({"kind": "summary", "epoch": epochs, "step": 0, **summary})
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(made))
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "summary.json").write_text(json.dumps(summary))
    return place


def _recalls(share: float, memory: bool) -> dict[str, float]:
    figures = {"with/recall@20": share, "semi/recall@20": 0.6 * share, "no/recall@20": 1.3 * share}
    if memory:
        figures |= {"with/recall@20_memory": 0.86 * share, "memoryless/recall@20": 0.678}
        figures |= {"memoryless/recall@20_memory": 0.376, "remembering/recall@20": 0.856}
        figures |= {"remembering/recall@20_memory": 0.960}
    return figures


def _tail(made: dict[str, Any]) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:8]


def make_record(folder: Path, name: str = "", jobs: list[dict] | None = None) -> None:
    """The experiment.json of the runs in a folder, made by one command."""
    runs = sorted(path.name for path in folder.iterdir() if path.is_dir())
    name = name or folder.name
    jobs = jobs or [{"run": run, "overrides": [f"loader={run.split('-')[0]}"]} for run in runs]
    record = {"name": name, "jobs": jobs, "sweeps": [sweep(name, *runs)]}
    (folder / "experiment.json").write_text(json.dumps(record))


def sweep(name: str, *runs: str, **changes: Any) -> dict[str, Any]:
    """The entry of a command in experiment.json."""
    return {
        "command": f"python train.py -m experiment={name}",
        "machine": {
            "cpu": "Made CPU",
            "cores": 2,
            "gpu": None,
            "memory_gib": 23.4,
            "system": "Linux",
        },
        "versions": {"python": "3.11.2", "torch": "2.11.0", "numpy": "2.3.0", "bload": "0.1.0"},
        "git": "0123456789abcdef0123456789abcdef01234567",
        "threads": 1,
        "started": "2026-11-21T09:00:00+00:00",
        "ended": "2026-11-21T10:30:00+00:00",
        "runs": list(runs),
        **changes,
    }


def make_everything(runs: Path, seeds: tuple[int, ...] = (0, 1, 2)) -> Path:
    """All experiments under `runs`, with a failed run, an unfinished one and a foreign folder."""
    table = runs / "paper_table"
    for loader in COSTS:
        for seed in seeds:
            make_run(table, loader, seed)
    failed = table / "mix-failed"
    failed.mkdir()
    (failed / "error.json").write_text(
        json.dumps({"error": "the gradient is nan in epoch 1, step 7; lower train.lr", "when": "x"})
    )
    half = make_run(table, "naive", 7)
    (half / "summary.json").unlink()
    make_record(table)
    time = runs / "paper_table_equal_time"
    for loader, epochs in (("naive", 1), ("sampling", 12), ("mix", 5), ("bload", 5)):
        for seed in seeds:
            make_run(time, loader, seed, train__epochs=epochs, train__slots=116_360)
    make_record(time)
    epoch = runs / "epoch_time"
    for loader, costs in (
        ("naive", (94, 534_831, 0)),
        ("sampling", (22, 0, 92_271)),
        ("mix", (22, 37_712, 40_289)),
        ("bload", (94, 4_953, 0)),
        ("bload_exact", (94, 65, 0)),
    ):
        for seed in seeds[:2]:
            options = {"train__epochs": 1, "dataset__train_videos": 7464}
            make_run(epoch, loader, seed, frames=166_785, costs=costs, **options)
    make_record(epoch)
    for t_max, padding in ((32, 3100), (64, 1750), (86, 930), (128, 610), (172, 420), (258, 330)):
        for loader, share in (("bload", 1.0), ("bload_exact", 0.1)):
            costs = (t_max, int(padding * share), 0)
            make_run(runs / "tmax_sweep", loader, costs=costs, loader__t_max=t_max)
    make_record(runs / "tmax_sweep")
    for experiment, key, values in (
        ("reset_ablation", "train__starts", {"table": 0.61, "ignored": 0.585, "wrong": 0.57}),
        ("padding_ablation", "train__padding", {"masked": 0.61, "repeated": 0.607}),
        (
            "temporal",
            "model__temporal",
            {"dds": 0.61, "gru": 0.6, "attention": 0.605, "scan": 0.59, "none": 0.5},
        ),
    ):
        for value, recall in values.items():
            for seed in seeds:
                share = recall + 0.004 * (seed - 1)
                make_run(runs / experiment, "bload", seed, recall=share, **{key: value})
        make_record(runs / experiment)
    make_deadlock(runs / "deadlock")
    make_lengths(runs / "length_variance")
    (runs / "notes").mkdir()
    return runs


def make_turns(folder: Path, faster: float, noise: float = 0.01, rounds: int = 10) -> None:
    """Loaders that took turns on Action Genome's lengths; BLoad's are so many times faster."""
    random = np.random.default_rng(0)
    rows = []
    for loader, slots, steps in (
        *(("naive", 701_616, 7_464), ("bload", 171_719, 1_827)),
        ("bload_exact", 166_850, 1_775),
    ):
        step = 0.2 if loader == "naive" else 0.2 * 7_464 / steps / faster
        seconds = step * np.exp(noise * random.standard_normal(rounds))
        row = {"loader": loader, "slots": slots, "steps": steps, "frames": 166_785}
        rows.append({**row, "seconds_a_step": seconds.tolist()})
    folder.mkdir(parents=True)
    record = {"name": "epoch_turns", "setting": "made", "rows": rows}
    (folder / "epoch_turns.json").write_text(json.dumps(record))


def make_deadlock(folder: Path, plain: str = "timed out", packed: str = "finished") -> None:
    rows = [
        {
            "what": "plain DDP",
            "loader": "uneven",
            "ended": plain,
            "steps": [40, 33],
            "seconds": 12.1,
        }
        | {"says": "rank 0 waited 10 s for a gradient that rank 1, which had finished, never sent"},
        {"what": "DDP with Join", "loader": "uneven", "ended": "finished", "steps": [40, 33]}
        | {"seconds": 3.2, "says": "rank 1 shadowed 7 steps"},
        *(
            {"what": "blocks", "loader": loader, "ended": packed, "steps": [30, 30]}
            | {"seconds": 2.0 + i / 5, "says": "equal steps"}
            for i, loader in enumerate(COSTS)
        ),
    ]
    rows.append(rows[0] | {"what": "plain DDP, exits if done", "ended": "failed"})
    for row in rows:
        row["expected"] = "timed out" if row["what"] == "plain DDP" else "finished"
    _write_rows(folder, rows)


def make_lengths(folder: Path) -> None:
    rows = []
    for longest, frames in ((1_000, 72_000), (10_000, 540_000)):
        for shape in ("log-uniform", "heavy-tailed"):
            for loader, padded, deleted in (
                ("naive", 6.2 if longest == 1_000 else 9.9, 0.0),
                ("sampling", 0.0, 0.6),
                ("mix", 0.4, 0.5),
                ("bload", 0.01, 0.0),
                ("bload_exact", 0.001, 0.0),
            ):
                processed = int(frames * (1 + padded - deleted))
                rows.append(
                    {"longest": longest, "shape": shape, "loader": loader, "frames": frames}
                    | {"t_max": 144 if loader in ("sampling", "mix") else longest - 9}
                    | {"padding": int(frames * padded), "deleted": int(frames * deleted)}
                    | {"processed": processed, "blocks": processed // longest + 1}
                    | {"lower_bound_padding": 17, "plan_seconds": 0.02, "seed": 0}
                    | {"epoch_seconds": processed / 60_000}
                )
    split = rows[-2] | {"t_max": 1_000, "padding": 270_000, "processed": 810_000}
    _write_rows(folder, [*rows, split])


def _write_rows(folder: Path, rows: list[dict]) -> None:
    folder.mkdir(parents=True)
    content = {"rows": rows, "name": folder.name}
    content |= {"command": f"python train.py experiment={folder.name}"}
    content |= {"started": "2026-11-21T11:00:00+00:00", "ended": "2026-11-21T11:05:00+00:00"}
    (folder / f"{folder.name}.json").write_text(json.dumps(content))

"""Folders of runs with made values, in the form in which training and its sweeps write them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

COSTS = {
    **{"naive": (86, 63_658, 0, 0.57), "sampling": (22, 0, 12_362, 0.58)},
    **{
        "mix": (22, 4_991, 5_333, 0.6),
        "bload": (86, 930, 0, 0.61),
        "bload_exact": (86, 18, 0, 0.61),
    },
}
"""Loader -> T_max, padded, deleted, and the share that its Recall@20 comes to."""


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def make_run(
    folder: Path,
    loader: str,
    seed: int = 0,
    *,
    recall: float | None = None,
    frames: int = 22_342,
    costs: tuple[int, int, int] | None = None,
    seconds: float | None = None,
    memory: bool = True,
    name: str = "",
    **changes: Any,
) -> Path:
    """One finished run; `recall` is the last Recall@20, `costs` T_max, padding and deletion.

    `changes` of the config are ``train__starts="ignored"``.
    """
    train = {"epochs": 5, "seed": seed, "starts": "table", "padding": "masked", "slots": None}
    config: dict[str, dict] = {
        "dataset": {"name": "synthetic", "root": "data/made", "train_videos": 1000},
        "loader": {"name": loader, "t_max": None, "last": "fill", "long": "error"},
        "model": {"name": "dds_tiny", "temporal": "dds", "checkpoint": "none"},
        "train": train | {"lr": 0.0015, "workers": 1},
    }
    for key, value in changes.items():
        group, _, key = key.partition("__")
        config[group][key] = value
    t_max, padding, deleted = costs or COSTS[loader][:3]
    random = np.random.default_rng([seed, *map(ord, loader)])
    recall = COSTS[loader][3] + 0.012 * random.standard_normal() if recall is None else recall
    epochs, processed = config["train"]["epochs"], frames + padding - deleted
    took = [(seconds or processed / 620) * (1 + 0.01 * random.random()) for _ in range(epochs)]

    def recalls(share: float) -> dict[str, float]:
        more = {"with/recall@20_memory": 0.86 * share, "remembering/recall@20_memory": 0.96}
        return {"with/recall@20": share, "no/recall@20": 1.3 * share} | (more if memory else {})

    lines: list[dict] = []
    for epoch, each in enumerate(took):
        line = {"kind": "epoch", "epoch": epoch + 1, "seconds": each, "processed": processed}
        line |= {"frames": frames - deleted}
        lines.append(line | {"loss": 60 / (epoch + 1)})
        share = recall * (1 - 0.6 ** (epoch + 1)) / (1 - 0.6**epochs)
        evaluated = {"kind": "eval", "epoch": epoch + 1, "after": epoch + 1, "seconds": 9.0}
        lines.append(evaluated | recalls(share))
    tail = hashlib.sha256(json.dumps(config).encode()).hexdigest()[:8]
    place = folder / (name or f"{loader}-s{seed}-{tail}")
    summary = {"t_max": t_max, "ranks": 1, "device": "cpu", "epochs": epochs, "padding": padding}
    summary |= {"deleted": deleted, "frames": frames - deleted, "processed": processed}
    summary |= {"steps": processed / 94, "epoch_seconds": took[0], "train_seconds": sum(took)}
    write(place / "config.json", config)
    write(place / "summary.json", summary | recalls(recall))
    (place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return place


def make_record(folder: Path, **changes: Any) -> None:
    """The experiment.json of the runs in a folder, made by one command."""
    runs = sorted(path.name for path in folder.iterdir() if path.is_dir())
    jobs = [{"run": run, "overrides": [f"loader={run.split('-')[0]}", "a=1"]} for run in runs]
    record = {"name": folder.name, "jobs": jobs, "sweeps": [command(folder.name, *runs)]}
    write(folder / "experiment.json", record | changes)


def command(name: str, *runs: str, **changes: Any) -> dict[str, Any]:
    """The entry of a command in experiment.json."""
    made = {"command": f"python train.py -m experiment={name}", "git": "0123456789abcdef" * 2}
    made |= {"machine": {"cpu": "Made CPU", "cores": 2, "gpu": None}, "threads": 1}
    made |= {"started": "2026-11-21T09:00:00+00:00", "ended": "2026-11-21T10:30:00+00:00"}
    return {**made, "versions": {"python": "3.11.2"}, "runs": list(runs), **changes}


def make_everything(runs: Path) -> Path:
    """All experiments under `runs`, with a failed run and an unfinished one."""
    for seed in (0, 1, 2):
        for loader in COSTS:
            make_run(runs / "paper_table", loader, seed)
        for loader, epochs in (("naive", 1), ("sampling", 12), ("mix", 5), ("bload", 5)):
            options = {"train__epochs": epochs, "train__slots": 116_360}
            make_run(runs / "paper_table_equal_time", loader, seed, **options)
        for experiment, key, values in (
            ("reset_ablation", "train__starts", {"table": 0.61, "ignored": 0.585, "wrong": 0.57}),
            ("padding_ablation", "train__padding", {"masked": 0.61, "repeated": 0.607}),
            ("temporal", "model__temporal", {"dds": 0.61, "gru": 0.6, "none": 0.5}),
        ):
            for value, recall in values.items():
                share = recall + 0.004 * (seed - 1)
                make_run(runs / experiment, "bload", seed, recall=share, **{key: value})
    (make_run(runs / "paper_table", "naive", 7) / "summary.json").unlink()
    for loader, costs in (("naive", (94, 534_831, 0)), ("bload", (94, 4_953, 0))):
        make_run(runs / "epoch_time", loader, frames=166_785, costs=costs)
    for t_max, padding in ((32, 3100), (86, 930), (258, 330)):
        for loader, share in (("bload", 1.0), ("bload_exact", 0.1)):
            costs = (t_max, int(padding * share), 0)
            make_run(runs / "tmax_sweep", loader, costs=costs, loader__t_max=t_max)
    for folder in runs.iterdir():
        make_record(folder)
    make_deadlock(runs / "deadlock")
    make_lengths(runs / "length_variance")
    make_turns(runs / "epoch_turns", 4.1)
    make_relations(runs / "paper_table")
    return runs


def make_relations(folder: Path, checkpoint: str = "runs/one/last.pt") -> None:
    """What eval.py writes of every relation: a contacting one is seldom found with constraint."""
    lines = ["checkpoint,constraint,k,kind,name,group,triplets,frames,recall"]
    for constraint, share in (("with", 1.0), ("semi", 0.5), ("no", 1.1)):
        for name, group, recall in (
            *(("looking_at", "attention", 0.9), ("above", "spatial", 0.6)),
            *(("holding", "contacting", 0.8), ("lying_on", "contacting", 0.02)),
        ):
            for k in (10, 20):
                recall_at = recall * share * k / 20
                lines.append(
                    f"{checkpoint},{constraint},{k},relation,{name},{group},7,5,{recall_at}"
                )
    (folder / "relations.csv").write_text("\n".join(lines))


def make_turns(folder: Path, faster: float, noise: float = 0.01) -> None:
    """Loaders that took turns on Action Genome's lengths; BLoad's are so many times faster."""
    random, rows = np.random.default_rng(0), []
    for loader, slots, steps in (("naive", 701_616, 7_464), ("bload", 171_719, 1_827)):
        step = 0.2 if loader == "naive" else 0.2 * 7_464 / steps / faster
        seconds = (step * np.exp(noise * random.standard_normal(10))).tolist()
        row = {"loader": loader, "slots": slots, "steps": steps, "frames": 166_785}
        rows.append(row | {"seconds_a_step": seconds})
    write(folder / "epoch_turns.json", command("epoch_turns", setting="made", rows=rows))


def make_deadlock(folder: Path, plain: str = "timed out", packed: str = "finished") -> None:
    ends = [("plain DDP", "uneven", plain, "timed out")]
    ends += [("blocks", loader, packed, "finished") for loader in COSTS]
    rows = [dict(zip(("what", "loader", "ended", "expected"), row, strict=True)) for row in ends]
    rows = [row | {"steps": [3, 3], "seconds": 1.0, "says": ""} for row in rows]
    write(folder / "deadlock.json", command(folder.name, rows=rows))


def make_lengths(folder: Path) -> None:
    rows = []
    for name, cv, t_max, packed in (("speech", 0.3, 300, 2.5), ("speech, cut", 0.3, 200, 1.25)):
        facts = {"lengths": name, "sequences": 50, "t_max": t_max, "mean": 100.0, "cv": cv}
        facts |= {"over_half": 0.5, "closed_form": t_max / 100}
        for loader in (*COSTS, "single", "bucket", "ragged", "bload_exact t_max=2x"):
            times = 1 if loader == "naive" else packed
            deleted = 500 if loader in ("sampling", "mix") else 0
            row = {"loader": loader, "padding": 900.0, "deleted": deleted, "imbalance": [1.0, 1.2]}
            rows.append(facts | row | {"times_fewer": [times, times]})
    write(folder / "length_variance.json", command(folder.name, rows=rows, seeds=2, ranks=8))

"""Train a recurrent scene-graph model on blocks of whole videos.

    torchrun train.py loader=bload                      one process; makes synthetic data if needed
    torchrun --nproc_per_node=2 train.py loader=naive   DDP; or sampling, mix, bload, bload_exact
    torchrun train.py model=dds dataset=action_genome dataset.root=/data/ag
    python train.py launch.nproc=2 loader=naive         the same without torchrun
    python train.py -m loader=naive,bload               one after another

The same command goes on where a run stopped. Keys: experiments/config.py.
"""

import json
import math
import time
from collections import Counter
from functools import partial

import hydra
import numpy as np
import torch
from omegaconf import DictConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from tqdm import tqdm

from bload import BlockLoader, InputError
from datasets.build import build_letterbox, build_source, build_yardsticks
from datasets.gaps import frame_gaps
from eval import evaluate
from experiments import cli
from experiments.checkpoint import check_same_model, load_checkpoint, save_checkpoint
from experiments.config import NOT_COMPUTED, check_values, plain, register, without
from experiments.equal_work import equal_work
from experiments.figures import epoch_figures, summarise
from experiments.launch import start
from experiments.memory import reset_peak_memory
from experiments.optimiser import Schedule, build_optimiser, set_rates
from experiments.padding import repeat_last
from experiments.printing import epoch_line, summary_text
from experiments.ranks import Ranks, autocast, start_ranks
from experiments.recompute import recompute
from experiments.results import upsert_result
from experiments.run_folder import RunFolder, run_name
from experiments.start_experiment import start_experiment
from experiments.starts import change_starts
from experiments.sweep import sweep
from experiments.tracking import Tracker
from models import Criterion, build_model, counts, to_tensors
from models.backbone import freeze_first_stage
from models.weights import load_weights

register()


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(config: DictConfig) -> None:
    with cli.told():
        start(run, plain(config))


def run(cfg: dict) -> None:
    """What one rank does."""
    if cfg["experiment"]["kind"] != "train":
        start_experiment(cfg)
        return
    with start_ranks(cfg["train"]["device"]) as ranks:
        train(cfg, ranks)


def train(cfg: dict, ranks: Ranks) -> None:
    check_values(cfg)
    job = cfg["train"]
    folder = RunFolder(cfg["run"]["root"], cfg["run"]["name"] or run_name(cfg, ranks.world_size))

    # Data. What has to be made is made by one rank, while the others wait for its lock.
    source = build_source("train", progress=True, **cfg["dataset"])
    test_source = build_source("test", progress=True, **cfg["dataset"])
    yardsticks = build_yardsticks(test_source, **cfg["dataset"])
    letterbox = build_letterbox(source, cfg["dataset"]["augment"], job["seed"])
    loader = BlockLoader(
        source,
        cfg["loader"]["name"],
        batch_frames=job["batch_frames"],
        rank=ranks.rank,
        world_size=ranks.world_size,
        seed=job["seed"],
        workers=job["workers"],
        pin_memory=ranks.device.type == "cuda",
        names=source.videos,
        **without(cfg["loader"], "name"),
    )
    job = job | equal_work(job, loader.account.processed)
    cfg = cfg | {"train": job}

    # Model.
    torch.manual_seed(job["seed"])
    sizes = without(cfg["model"], "name", *NOT_COMPUTED)
    model = build_model(**sizes).to(ranks.device)
    model.recompute = recompute(
        cfg["model"]["checkpoint"],
        sizes,
        cfg["dataset"]["frame_size"],
        loader.sampler.blocks_per_rank,
        loader.sampler.t_max,
        job["amp"],
        ranks,
    )
    if cfg["model"]["weights"]:
        freeze_first_stage(model.backbone)
    criterion = Criterion(**cfg["loss"])
    optimiser = build_optimiser(model, job["lr"], job["backbone_lr"], job["weight_decay"])
    schedule = Schedule(job["schedule"], job["epochs"], job["warmup_epochs"], job["step_at"])
    precision = autocast(job["amp"], ranks.device)
    average = None
    if job["ema"]:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(job["ema"]))
    parallel: nn.Module = model
    if ranks.world_size > 1:
        parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)

    # Resume. Nothing is written before everything above has been accepted.
    resume = cfg["run"]["resume"]
    if resume == "auto" and folder.summary.exists():
        folder.check_same_config(cfg)
        if ranks.is_first:
            print(summary_text(json.loads(folder.summary.read_text())))
            print("\nThis run had finished before; run.resume=never trains it again.")
        return
    path = folder.last if resume == "auto" else resume
    progress = {"best": -1.0, "epoch_sums": []}
    report = None
    if resume != "never" and (resume != "auto" or folder.last.exists()):
        saved = load_checkpoint(path, ranks.device)
        check_same_model(saved["config"]["model"], cfg["model"], path)
        loader.load_state_dict(saved["loader"])
        folder.check_accepts(path, cfg)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        if average and "average" in saved:
            average.load_state_dict(saved["average"])
        elif average:  # the checkpoint has none: it begins at its weights
            average.module.load_state_dict(saved["model"])
        if cfg["model"]["checkpoint"] == "auto":
            model.recompute = saved.get("recompute", model.recompute)
        progress = saved["progress"]
        if not folder.best.exists():
            progress["best"] = -1.0
        if ranks.is_first:
            print(f"going on from {path}: epoch {loader.sampler.epoch + 1}, step {loader.step}")
    else:
        if cfg["model"]["weights"]:
            with ranks.first_alone():  # it fetches the file for all
                report = load_weights(model, cfg["model"]["weights"])
        if ranks.is_first:
            folder.clear()
    ranks.barrier()
    log = folder.open(ranks.rank)
    if ranks.is_first:
        print(
            f"{folder.path}: loader {cfg['loader']['name']}, T_max {loader.sampler.t_max}, "
            f"{len(source.lengths):,} videos, {source.lengths.sum():,} frames, "
            f"{ranks.world_size} x {ranks.device.type}",
            flush=True,
        )
    if report:
        log.info("%s", report)
        if ranks.is_first:
            print(report)
    if ranks.is_first:
        folder.write_json(folder.config, cfg)
        folder.rewind_metrics(loader.sampler.epoch, loader.step)
        folder.summary.unlink(missing_ok=True)
        folder.error.unlink(missing_ok=True)
    tracker = Tracker(folder, cfg, cfg["wandb"], active=ranks.is_first)

    def save(best: bool = False) -> None:
        if ranks.is_first:
            state = {
                "config": cfg,
                "epoch": loader.sampler.epoch,
                "loader": loader.state_dict(),
                "model": model.state_dict(),
                "optimiser": optimiser.state_dict(),
                "recompute": model.recompute,
                "progress": progress,
            }
            if average:
                state["average"] = average.state_dict()
            save_checkpoint(folder.best if best else folder.last, state)

    # Loop.
    reset_peak_memory(ranks.device)
    parameters = [p for p in model.parameters() if p.requires_grad]
    for epoch in range(loader.sampler.epoch, job["epochs"]):
        loader.set_epoch(epoch)
        steps = len(loader)
        sums = Counter(seconds=0.0, waiting=0.0)
        for saved_sums in progress["epoch_sums"][ranks.rank :: ranks.world_size]:
            sums.update(saved_sums)
        with tqdm(
            total=steps,
            initial=loader.step,
            desc=f"epoch {epoch + 1}/{job['epochs']}",
            unit="step",
            leave=False,
            disable=None if ranks.is_first else True,  # None: only on a terminal
        ) as bar:
            began = asked = time.perf_counter()
            for batch in loader:
                step = loader.step - 1
                sums["waiting"] += time.perf_counter() - asked
                seed_step(job["seed"], epoch, step, ranks.rank)
                set_rates(optimiser, schedule(epoch + (step + 1) / steps))

                if job["padding"] == "repeated":
                    batch = repeat_last(batch)
                gap_BT = frame_gaps(batch).to(ranks.device, non_blocking=True)
                batch, extent_BT2 = letterbox(batch, ranks.device, epoch)
                # The losses are sums over this rank's frames, divided by the targets of all ranks.
                targets = to_tensors(batch.targets, ranks.device)
                total = ranks.sum(counts(targets, cfg["model"]["queries"]))
                start_BT = change_starts(batch.start_BT, batch.valid_BT, job["starts"], job["seed"])
                with precision:
                    outputs = parallel(
                        batch.frames_BT,
                        start_BT,
                        batch.valid_BT,
                        bptt=job["bptt"],
                        extent_BT2=extent_BT2,
                        gap_BT=gap_BT,
                    )
                losses = criterion(outputs, targets, batch.valid_BT, total)
                # DDP divides the sum of gradients by the number of ranks; this takes it back.
                optimiser.zero_grad()
                (losses["loss"] * ranks.world_size).backward()
                norm = nn.utils.clip_grad_norm_(parameters, job["clip_norm"])
                # One wait for the device.
                norm, *values = torch.stack([norm, *losses.values()]).tolist()
                if not math.isfinite(norm):
                    raise InputError(
                        f"the gradient is {norm} in epoch {epoch}, step {step}; "
                        f"lower train.lr ({job['lr']}) or set train.amp=off"
                    )
                optimiser.step()
                if average:
                    average.update_parameters(model)

                for name, value in zip(losses, values, strict=True):
                    sums[name] += value
                now = time.perf_counter()
                sums["seconds"] += now - began
                began = now
                bar.update()
                if loader.step % job["log_every"] == 0:
                    rate = optimiser.param_groups[-1]["lr"]
                    loss = float(ranks.sum(torch.tensor(values[0])))
                    tracker.log("step", epoch, loader.step, loss=loss, norm=norm, lr=rate)
                if loader.step % job["checkpoint_every"] == 0 and loader.step < steps:
                    progress["epoch_sums"] = ranks.gather(dict(sums))
                    save()
                asked = time.perf_counter()
            sums["seconds"] += time.perf_counter() - began

        figures = epoch_figures(loader, sums, ranks)
        log.info("epoch %d: %s", epoch + 1, figures)
        tracker.log("epoch", epoch, steps, **figures)
        if ranks.is_first:
            print(epoch_line(epoch + 1, job["epochs"], figures), flush=True)
        progress["epochs"] = [*progress.get("epochs", []), figures]
        progress["epoch_sums"] = []

        last = epoch + 1 == job["epochs"]
        if last or (job["eval_every"] and (epoch + 1) % job["eval_every"] == 0):
            recall = evaluate(
                average.module if average else model,
                test_source,
                ranks,
                batch_frames=2 * job["batch_frames"],
                amp=job["amp"],
                workers=job["workers"],
                yardsticks=yardsticks,
                starts=job["starts"],
                seed=job["seed"],
            )
            log.info("evaluation: %s", recall)
            tracker.log("eval", epoch, steps, **recall)
            progress["recall"] = recall
            if recall["with/recall@20"] > progress["best"]:
                progress["best"] = recall["with/recall@20"]
                loader.set_epoch(epoch + 1)
                save(best=True)
        loader.set_epoch(epoch + 1)
        save()

    # Report.
    summary = {
        "run": folder.path.name,
        "folder": str(folder.path),
        "loader": cfg["loader"]["name"],
        "t_max": loader.sampler.t_max,
        "dataset": cfg["dataset"]["name"],
        "model": cfg["model"]["name"],
        "seed": job["seed"],
        "starts": job["starts"],
        "temporal": cfg["model"]["temporal"],
        "padding_mode": job["padding"],
        "experiment": cfg["experiment"]["name"],
        "ranks": ranks.world_size,
        "device": ranks.device.type,
        "epochs": job["epochs"],
        **summarise(progress["epochs"]),
        **{k if "/" in k else f"eval_{k}": v for k, v in progress["recall"].items()},
        "best_recall@20": progress["best"],
        "results": str(folder.path.parent / "results.csv"),
    }
    if ranks.is_first:
        tracker.log("summary", job["epochs"], 0, **summary)
        upsert_result(folder.path.parent / "results.csv", summary)
        folder.write_json(folder.summary, summary)
        folder.error.unlink(missing_ok=True)
        print(summary_text(summary))
    tracker.close()
    ranks.barrier()


def seed_step(seed: int, epoch: int, step: int, rank: int) -> None:
    """Seed dropout as a function of the step, so that resuming needs no random state."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch, step, rank]).generate_state(1)[0]))


if __name__ == "__main__":
    cli.run(main, "train", partial(sweep, run))

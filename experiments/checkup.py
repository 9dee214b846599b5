"""The checks of `experiments.doctor`: each is a function of the site, named as in the answer."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from training.failures import sentence_of

from bload.errors import InputError
from datasets.annotations.read import OBJECTS_FILE, PERSONS_FILE
from datasets.build import check_kind
from datasets.cores import cores
from datasets.frames.sizes import duration, gib
from datasets.prepare.decoder import decoder_version
from datasets.prepare.folder import VIDEOS_FOLDER
from experiments.site import Site
from experiments.trial import time_step
from models import build_model
from models.config import share_of
from models.cost import GIB, measure_cost
from models.weights import noise_warning, try_weights
from training.memory import peak_memory_mib, reset_peak_memory, room
from training.ranks import autocast

VIDEOS_FROM = '"Data (scaled to 480p)" of https://prior.allenai.org/projects/charades (13 GB)'
ANNOTATIONS_FROM = "https://github.com/JingweiJ/ActionGenome (its link to the annotations)"
VIDEOS_BYTES, FRAME_BYTES = 13e9, 213e3
"""Of all videos, as published, and of a PNG of 480 x 360, as in results/prepare_speed.txt."""
ON_CPU = 2
"""Frames of a timed step where there is no GPU: a whole one would take minutes."""
SAVED = 3 * 3
"""Checkpoints of a run, each with weights and AdamW's two moments."""
EVALUATION = 1 / 3
"""Work on a frame in evaluation, a forward pass, over that in training."""


def annotations(site: Site) -> str:
    check_kind(site.cfg.dataset)
    folder, texts = site.root / "annotations", []
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder if site.root.is_dir() else site.root}; put {OBJECTS_FILE} "
            f"and {PERSONS_FILE} into {folder}; they come from {ANNOTATIONS_FROM}"
        )
    try:
        for split, found in site.counted.items():
            count = sum(len(video.frames) for video in found)
            texts.append(f"{split} {len(found):,} videos, {count:,} frames")
    except InputError as error:
        raise InputError(f"{error}; they come from {ANNOTATIONS_FROM}") from error
    return f"{'; '.join(texts)} count (small_boxes={site.cfg.dataset.small_boxes})"


def videos(site: Site) -> str:
    folder, first = site.root / VIDEOS_FOLDER, ""
    if "annotations" in site.failed:
        lengths = [*site.lengths["train"], *site.lengths["test"]]
        lacking, what = len(lengths) - len([*folder.glob("*.mp4")]), "of Action Genome that count"
    elif site.missing:
        lengths, what = [*map(len, site.missing.values())], "whose frames are missing"
        names = [video for video in site.missing if not (folder / video).exists()]
        lacking, first = len(names), f", {names[0]} first" if names else ""
    else:
        return "not needed any more: all frames are there"
    if lacking <= 0:
        return f"all {len(lengths):,} {what}"
    site.to_write = sum(lengths) * FRAME_BYTES + lacking / len(lengths) * VIDEOS_BYTES
    raise InputError(
        f"{lacking:,} of {len(lengths):,} videos {what} are not in {folder}{first}; they come from "
        f"{VIDEOS_FROM}"
    )


def ffmpeg(site: Site) -> str:
    return decoder_version()


def frames(site: Site) -> str:
    if not site.missing:
        return "all that count are there"
    found, todo = site.extracted, sum(map(len, site.missing.values()))
    site.to_write = todo / found.frames * found.bytes
    time = duration(todo / found.frames * found.seconds)
    return (
        f"{todo:,} in {len(site.missing):,} videos to extract: {time} on {cores()} cores, "
        f"{gib(site.to_write)} as {found.stored_as} (estimated from {found.frames:,} frames of "
        f"{found.videos} videos in {found.seconds:.0f} s, measured)"
    )


def weights(site: Site) -> str:
    cfg = site.cfg
    if cfg.model.weights is None:
        return noise_warning(cfg.model.backbone, cfg.train.backbone_lr) or "none are needed"
    with torch.device("meta"):
        return try_weights(build_model(cfg.model), cfg.model.weights)


def memory(site: Site) -> str:
    cfg, device, sampler = site.cfg, site.ranks.device, site.sampler
    batch = sampler.blocks_per_batch * sampler.t_max
    height, width = cfg.dataset.frame_size
    precision = autocast(cfg.train.amp, device)
    cost = measure_cost(cfg.model, (height, width), sampler.t_max, precision, device)
    site.to_save = SAVED * cost.parameter_bytes
    free, source = room(cfg.model.memory, device)
    auto = cfg.model.checkpoint == "auto"
    site.share = cost.share(batch, free) if auto else share_of(cfg.model.checkpoint)
    none, some, most = (cost.step(batch, one) / GIB for one in (0, site.share, 1))
    text = (
        f"a step of {batch} frames takes {some:.1f} GiB, recomputing {site.share:.0%} of pictures "
        f"({none:.1f} with none, {most:.1f} with all; estimated); {free / GIB:.1f} GiB are there "
        f"({source})"
    )
    if some * GIB > free:
        raise InputError(f"{text}; lower train.batch_frames and loader.t_max, with loader.long")
    return text


def training(site: Site) -> str:
    cfg, device, sampler = site.cfg, site.ranks.device, site.sampler
    gpu = device.type == "cuda"
    rows, slots = (sampler.blocks_per_batch, sampler.t_max) if gpu else (1, ON_CPU)
    reset_peak_memory(device)
    seconds = time_step(cfg, site.counted["train"], (rows, slots), site.share, site.ranks)
    epochs, tested = cfg.train.epochs, sum(site.lengths["test"])
    work = sampler.plan.blocks * sampler.t_max * epochs + tested * EVALUATION
    whole = work * seconds / (rows * slots)
    where = torch.cuda.get_device_name(device) if gpu else "this CPU (there is no GPU here)"
    peak = f", peak {peak_memory_mib(device) / 1024:.1f} GiB" if gpu else ""
    here = torch.cuda.device_count()
    more = f", {duration(whole / here)} on {here}" if here > 1 else ""
    return (
        f"{seconds:.2f} s for a step of {rows * slots} frames on {where}{peak} (measured); "
        f"{duration(whole)} for {epochs} epoch{'' if epochs == 1 else 's'} and an evaluation{more} "
        "(estimated)"
    )


def disk(site: Site) -> str:
    texts = list[str]()
    for path, needed in ((site.root, site.to_write), (Path(site.cfg.run.root), site.to_save)):
        there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
        free = shutil.disk_usage(there).free
        texts.append(f"{path} needs {gib(needed)} more (estimated), {gib(free)} are free")
        if needed > free:
            raise InputError(f"{texts[-1]}; make room, or extract with --format jpeg")
    return "; ".join(texts)


CHECKS: dict[str, Callable[[Site], str]] = {
    check.__name__: check
    for check in (annotations, videos, ffmpeg, frames, weights, memory, training, disk)
}
"""Name -> what it looks at: returns what it has found, raises `InputError` for what is to do."""
NEEDS = {"frames": ("annotations", "videos"), "training": ("annotations",)}
"""Name -> those before which it cannot be looked at."""
SLOW = ("memory", "training")
TO_PREPARE = ("annotations", "videos", "ffmpeg", "frames", "disk")
TO_TRAIN = ("annotations", "frames", "weights", "memory", "training", "disk")


def look(site: Site) -> None:
    """Print a line for every check; those with something to do are in ``site.failed``."""
    for name, check in CHECKS.items():
        after = [one for one in NEEDS.get(name, ()) if one in site.failed]
        if name in SLOW and not after:
            print(f"{name}: measured here, about a minute on a CPU", file=sys.stderr)
        try:
            text = f"after the {' and '.join(after)}" if after else check(site)
            mark = "later" if after else "warning" if text.startswith("warning: ") else "ok"
        except Exception as error:
            if (said := sentence_of(error)) is None:
                raise
            mark, text = "to do", said
            site.failed.append(name)
        print(f"{mark:<8} {name}: {text.removeprefix('warning: ')}", flush=True)

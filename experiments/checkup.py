"""The checks of `experiments.doctor`: each is a function of the site, named as in the answer."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from tqdm import tqdm

from bload.errors import InputError
from datasets.build import check_kind
from datasets.cores import cores
from datasets.frames.sizes import gib
from datasets.prepare.decoder import decoder_version
from datasets.prepare.folder import VIDEOS_FOLDER
from experiments.failures import sentence_of
from experiments.memory import peak_memory_mib, reset_peak_memory, room
from experiments.ranks import autocast
from experiments.site import Site
from experiments.trial import time_step
from models import build_model
from models.config import share_of
from models.cost import GIB, measure_cost
from models.weights import noise_warning, try_weights

VIDEOS_FROM = '"Data (scaled to 480p)" of https://prior.allenai.org/projects/charades (13 GB)'
ANNOTATIONS_FROM = "https://github.com/JingweiJ/ActionGenome (its link to the annotations)"
ON_CPU = 2
"""Frames of a timed step where there is no GPU: a whole one would take minutes."""
SAVED = 3 * 3
"""Checkpoints of a run, each with weights and AdamW's two moments."""
EVALUATION = 1 / 3
"""Work on a frame in evaluation, a forward pass, over that in training."""


def annotations(site: Site) -> str:
    check_kind(site.cfg.dataset)
    texts = []
    try:
        for split, found in site.counted.items():
            count = sum(len(video.frames) for video in found)
            texts.append(f"{split} {len(found):,} videos, {count:,} frames")
    except InputError as error:
        raise InputError(f"{error}; they come from {ANNOTATIONS_FROM}") from error
    return f"{'; '.join(texts)} count (small_boxes={site.cfg.dataset.small_boxes})"


def videos(site: Site) -> str:
    if not site.missing:
        return "not needed any more: all frames are there"
    folder = site.root / VIDEOS_FOLDER
    if lacking := [video for video in site.missing if not (folder / video).exists()]:
        raise InputError(
            f"{len(lacking):,} of {len(site.missing):,} videos whose frames are missing are not in "
            f"{folder}, {lacking[0]} first; they come from {VIDEOS_FROM}"
        )
    return f"all {len(site.missing):,} whose frames are missing"


def ffmpeg(site: Site) -> str:
    return decoder_version()


def frames(site: Site) -> str:
    if not site.missing:
        return "all that count are there"
    found, todo = site.extracted, sum(map(len, site.missing.values()))
    site.to_write = todo / found.frames * found.bytes
    time = tqdm.format_interval(todo / found.frames * found.seconds)
    return (
        f"{todo:,} in {len(site.missing):,} videos to extract: {time} (h:mm:ss) on {cores()} cores"
        f", {gib(site.to_write)} as {found.stored_as} (estimated from {found.frames:,} frames of "
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
    tested = sum(len(video.frames) for video in site.counted["test"])
    work = sampler.plan.blocks * sampler.t_max * cfg.train.epochs + tested * EVALUATION
    whole = work * seconds / (rows * slots)
    where = torch.cuda.get_device_name(device) if gpu else "this CPU (there is no GPU here)"
    peak = f", peak {peak_memory_mib(device) / 1024:.1f} GiB" if gpu else ""
    here = torch.cuda.device_count()
    more = f", {tqdm.format_interval(whole / here)} on {here}" if here > 1 else ""
    return (
        f"{seconds:.2f} s for a step of {rows * slots} frames on {where}{peak} (measured); "
        f"{tqdm.format_interval(whole)} (h:mm:ss) for {cfg.train.epochs} epochs and an evaluation"
        f"{more} (estimated)"
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
TO_PREPARE = ("annotations", "videos", "ffmpeg", "frames", "disk")
TO_TRAIN = ("annotations", "frames", "weights", "memory", "training", "disk")


def look(site: Site) -> None:
    """Print a line for every check; those with something to do are in ``site.failed``."""
    for name, check in CHECKS.items():
        try:
            later = "annotations" in site.failed and check not in (ffmpeg, weights)
            mark, text = ("later", "after the annotations") if later else ("ok", check(site))
        except Exception as error:
            if (said := sentence_of(error)) is None:
                raise
            mark, text = "to do", said
            site.failed.append(name)
        print(f"{mark:<8} {name}: {text}", flush=True)

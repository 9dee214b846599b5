"""The experiments' files: every command in them gives the jobs that they speak of."""

import re
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf, open_dict

from bload import PACKERS, InputError, deal, make_plan
from bload.packers import packer_options
from datasets import cores as cores_of
from datasets.synthetic.world import draw_lengths
from training.config import CONFIGS, compose_job, register

ALL = {
    path.stem: path.read_text()
    for path in sorted((CONFIGS / "experiment").glob("*.yaml"))
    if not path.stem.startswith("_")
}
SINGLE = ("action_genome", "frames", "smoke")
"""Those of one run."""
PART = {"start_table": "horizon"}
"""Those that are some runs of another, in its folder."""
FILES = {name: text for name, text in ALL.items() if name not in (*SINGLE, *PART)}
QUICK = [name for name in FILES if name.endswith("_quick")]


@cache
def experiment(name):
    """The job with the defaults of what varies, and what varies: key -> values."""
    register()
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", [f"experiment={name}"], return_hydra_config=True)
    varied = {key: str(of).split(",") for key, of in config.hydra.sweeper.params.items()}
    with open_dict(config):
        del config["hydra"]
    return OmegaConf.to_object(config), varied


def slots_per_epoch(job):
    """The work of one rank, from the config alone."""
    lengths = draw_lengths("train", job.dataset.train_videos, np.random.default_rng(0))
    known = packer_options(job.loader.name)
    options = {key: of for key, of in job.loader.options.items() if key in known}
    plan = make_plan(lengths, job.loader.name, job.loader.t_max, **options)
    return deal(plan, 1, job.train.batch_frames, last=job.loader.last).account.processed


def test_an_experiment_has_a_name_a_folder_a_group_a_command_and_a_quick_form():
    for name, text in FILES.items():
        job, varied = experiment(name)
        assert job.experiment.name == job.wandb.group == name
        assert job.run.root == f"runs/{name}"
        assert text.splitlines()[1] == f"# python train.py -m experiment={name}"
        assert prod(map(len, varied.values())) > 1
        assert set(varied.get("loader", [])) <= {*PACKERS}
        assert name in QUICK or f"{name}_quick" in QUICK


def test_a_single_run_needs_no_m_and_has_its_command_on_its_first_line():
    for name in SINGLE:
        assert f"train.py experiment={name}" in ALL[name].splitlines()[1]
        job = compose_job("train", [f"experiment={name}"])
        assert job.experiment.name == name
        assert job.run.root == f"runs/{name}"


def test_a_part_is_the_experiment_itself_by_other_runs():
    for name, whole in PART.items():
        part, varied = experiment(name)
        assert part == experiment(whole)[0]
        assert varied != experiment(whole)[1]
        assert ALL[name].splitlines()[1] == f"# python train.py -m experiment={name}"


def test_action_genome_is_the_full_network_by_its_own_recipe_on_augmented_exact_blocks():
    register()
    job = compose_job("train", ["experiment=action_genome"])
    plain = compose_job("train", ["model=dds", "dataset=action_genome"])
    assert (job.model.name, job.model.weights, job.model.checkpoint) == ("dds", "detr", "auto")
    assert (job.loader.name, job.dataset.name) == ("bload_exact", "action_genome")
    assert job.dataset.small_boxes == "computed"
    assert job.dataset.augment.flip == 0.5
    assert job.train.eval_every == 1
    assert replace(job.train, workers=1, eval_every=0) == plain.train
    assert (job.train.amp, job.loss) == ("auto", plain.loss)


def test_reading_processes_are_a_share_of_the_cores_up_to_eight(monkeypatch):
    register()
    for cores, ranks, workers in ((2, 1, 2), (64, 8, 8), (64, 2, 8), (12, 4, 3), (2, 4, 1)):
        monkeypatch.setattr(cores_of, "cores", lambda cores=cores: cores)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        job = compose_job("train", ["experiment=action_genome"])
        assert job.train.workers == workers
    assert compose_job("train", ["train.workers=3"]).train.workers == 3
    with pytest.raises(InputError, match=r"train\.workers is -2; give -1"):
        compose_job("train", ["train.workers=-2"])


def test_every_command_in_a_header_is_a_sweep_of_that_experiment():
    for name in FILES.keys() - QUICK:
        for line in re.findall(r"python train\.py -m (.+)", FILES[name]):
            given = ["loader=bload", "train.seed=0", *line.split()]  # for others it is alike
            values = {key: of.split(",") for key, of in (one.split("=") for one in given)}
            for chosen in product(*values.values()):
                line = [f"{key}={one}" for key, one in zip(values, chosen, strict=True)]
                assert compose_job("train", line).experiment.name == name


def test_a_quick_form_takes_a_tenth_of_the_work_of_the_full_one():
    def work(name):
        job, varied = experiment(name)
        size = job.train.slots or job.train.epochs * job.dataset.train_videos
        return size * prod(len(of) for key, of in varied.items() if key != "train.seed")

    for name in QUICK:
        assert work(name) < work(name.removesuffix("_quick")) / 10


def test_equal_time_is_that_of_the_epochs_of_bload():
    for name in ("paper_table_equal_time", "paper_table_equal_time_quick"):
        job, _ = experiment(name)
        assert job.loader.name == "bload"
        epochs = job.train.slots / slots_per_epoch(job)
        assert epochs == pytest.approx(job.train.epochs, rel=0.02)


def test_steps_of_the_t_max_sweep_hold_equally_many_slots():
    for name in ("tmax_sweep", "tmax_sweep_quick"):
        job, varied = experiment(name)
        sizes = {job.train.batch_frames // int(t) * int(t) for t in varied["loader.t_max"]}
        assert sizes == {256, 258}

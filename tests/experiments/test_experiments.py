"""The experiments' files: every command in them gives the jobs that they speak of."""

import re
from functools import cache
from math import prod

import pytest
from hydra import compose, initialize_config_dir

from bload import InputError
from training.compose import compose_job
from training.config import CONFIGS

JOBS = {"paper_table": [5, 15, 1], "paper_table_work": [2], "convergence": [12, 3]}
JOBS |= {"one_rank": [15, 8, 5], "one_rank_work": [5, 6, 5], "one_rank_one": [10]}
JOBS |= {"one_rank_four": [10]}
JOBS |= {"horizon": [48, 24, 32, 6], "tmax_sweep": [50], "ablations": [3, 6, 3, 9]}
JOBS |= {"epoch_time": [5], "full_size": [5], "alternatives": [16]}
JOBS |= {"balance_learning": [15], "coherence": [27, 9]}
"""Jobs of the commands in the head of each experiment's file."""


@cache
def experiment(*overrides):
    """The job of a sweep but for what varies, and what varies: key -> values."""
    line = [f"experiment={overrides[0]}", *overrides[1:]]
    job = compose_job("train", line)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        params = compose("train", line, return_hydra_config=True).hydra.sweeper.params
    return job, {key: str(values).split(",") for key, values in params.items()}


@pytest.mark.parametrize("name", JOBS)
def test_commands_of_an_experiment_are_sweeps_in_its_folder_and_group(name):
    text = (CONFIGS / f"experiment/{name}.yaml").read_text()
    lines = re.findall(rf"train\.py experiment={name}(| .+)$", text.replace("`", "\n"), re.M)
    assert lines[0] == ""
    given = [dict(option.split("=") for option in line.split()) for line in lines]
    sweeps = [
        experiment(name)[1] | {key: values.split(",") for key, values in options.items()}
        for options in given
    ]
    assert [prod(map(len, varied.values())) for varied in sweeps] == JOBS[name]
    jobs = set()
    for varied in sweeps:
        varied.pop("train.seed", None)
        for number in range(max(map(len, varied.values()))):
            jobs.add(tuple(f"{key}={of[number % len(of)]}" for key, of in varied.items()))
    for values in jobs:
        job = compose_job("train", [f"experiment={name}", *values])
        assert job.experiment.name == job.wandb.group == name
        assert job.run.root == f"runs/{name}"


@pytest.mark.parametrize("name", JOBS)
def test_a_short_form_has_a_folder_of_its_own_and_takes_half_of_the_work_at_most(name):
    def work(root, *size):
        job, varied = experiment(name, *size)
        assert job.run.root == f"runs/{root}"
        amount = job.train.slots or job.train.epochs * job.dataset.train_videos
        return amount * prod(len(of) for key, of in varied.items() if key != "train.seed")

    assert work(f"{name}_quick", "size=quick") <= work(name) / 2


def test_horizon_starts_from_what_frames_trains():
    frames = compose_job("train", ["experiment=frames"])
    horizon, _ = experiment("horizon")
    assert horizon.model.weights == f"{frames.run.root}/{frames.run.name}/last.pt"


def test_a_loader_has_the_rate_of_its_experiment_and_train_lr_moves_all_three():
    clips = ["loader=sampling", "loader.clips=all"]
    for line, rate in (
        (["experiment=one_rank", "loader=naive"], 0.00075),
        (["experiment=one_rank", "loader=sampling"], 0.003),
        (["experiment=one_rank_one", "loader=sampling"], 0.00075),
        (["experiment=one_rank_one", *clips], 0.0015),
        (["experiment=one_rank_one", *clips, "train.lr=0.25"], 0.25),
        (["experiment=one_rank_one", "loader=ragged"], 0.0015),  # as bload
    ):
        train = compose_job("train", line).train
        assert (train.lr, train.backbone_lr, train.muon_lr) == (rate, rate, 2 * rate)


def test_ranks_share_the_slots_of_a_step_of_the_papers_table(monkeypatch):
    for ranks in (1, 2):
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        assert compose_job("train", ["experiment=paper_table"]).train.batch_slots == 188 // ranks
    for ranks in (3, 4):  # of whose blocks a step would have more slots than one of clips
        monkeypatch.setenv("WORLD_SIZE", str(ranks))
        with pytest.raises(InputError, match=f"{ranks} ranks cannot take 94 or more each"):
            compose_job("train", ["experiment=paper_table"])

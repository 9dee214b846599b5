"""The experiments' files: every command in them gives the jobs that they speak of."""

import re
import sys
from functools import cache

import numpy as np
import pytest

import train
from bload.dealing import account
from bload.packers import make_plan
from datasets.synthetic.world import draw_lengths
from experiments import cli
from experiments.equal_work import equal_work
from experiments.sweep import jobs_of
from tests.experiments.jobs import compose_config

EXPERIMENTS = sorted(path.stem for path in (cli.CONFIGS / "experiment").glob("*.yaml"))
SWEEPS = [
    name
    for name in EXPERIMENTS
    if "params:" in (cli.CONFIGS / "experiment" / f"{name.removesuffix('_quick')}.yaml").read_text()
]


def commands(name):
    """The overrides of the commands in a file's header, of one seed: the others are alike."""
    text = (cli.CONFIGS / "experiment" / f"{name}.yaml").read_text()
    header = text.split("\n\n")[0]
    lines = re.findall(r"python train\.py -m (.+)", header)
    return [f"{line} train.seed=0".split() for line in lines]


@cache
def configs_of(*overrides):
    """The configs of a sweep, and it checks them."""
    return [job.config for job in jobs_of(overrides)]


def slots_an_epoch(job):
    """Of one rank, from the config alone."""
    data, size, loader = job["dataset"], job["train"]["batch_frames"], job["loader"]
    lengths = draw_lengths("train", data["train_videos"], np.random.default_rng(0))
    options = {key: loader[key] for key in ("long", "draw", "place", "clips") if key in loader}
    plan = make_plan(lengths, loader["name"], loader["t_max"], **options)
    return account(plan, size // plan.t_max, loader["last"]).processed


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_has_its_own_name_and_folder_and_a_quick_form(name):
    config = compose_config("train", [f"experiment={name}"])
    assert config["experiment"]["name"] == name
    assert config["run"]["root"] == f"runs/{name}"
    if config["experiment"]["kind"] == "train":
        assert config["wandb"]["group"] == name
    assert name.endswith("_quick") or f"{name}_quick" in EXPERIMENTS


@pytest.mark.parametrize("name", SWEEPS)
def test_every_command_in_the_header_is_a_sweep_of_that_experiment(name):
    first, *others = commands(name)
    assert first == [f"experiment={name}", "train.seed=0"]
    assert len(configs_of(*first)) > 1
    for overrides in (first, *others):
        for config in configs_of(*overrides):
            assert config["experiment"]["name"] == name


@pytest.mark.parametrize("name", [name for name in SWEEPS if name.endswith("_quick")])
def test_a_quick_form_takes_a_tenth_of_the_work_of_the_full_one(name):
    def work(name):
        total = 0
        for config in configs_of(f"experiment={name}", "train.seed=0"):
            size = slots_an_epoch(config)
            total += size * (config["train"] | equal_work(config["train"], size))["epochs"]
        return total

    assert work(name) < work(name.removesuffix("_quick")) / 10


def test_what_is_given_on_the_command_line_narrows_a_sweep():
    jobs = jobs_of(["experiment=paper_table", "loader=sampling,bload", "train.seed=3"])
    assert [str(job) for job in jobs] == [
        "loader=sampling train.seed=3",
        "loader=bload train.seed=3",
    ]


@pytest.mark.parametrize("name", ["paper_table_equal_time", "paper_table_equal_time_quick"])
def test_equal_time_is_that_of_the_epochs_of_bload(name):
    job = compose_config("train", [f"experiment={name}"])
    assert job["loader"]["name"] == "bload"
    epochs = job["train"]["slots"] / slots_an_epoch(job)
    assert epochs == pytest.approx(job["train"]["epochs"], rel=0.02)


def test_steps_of_the_t_max_sweep_hold_equally_many_slots():
    for name in ("tmax_sweep", "tmax_sweep_quick"):
        sizes = set()
        for config in configs_of(f"experiment={name}", "train.seed=0"):
            t_max = config["loader"]["t_max"]
            sizes.add(config["train"]["batch_frames"] // t_max * t_max)
        assert sizes == {256, 258}


@pytest.mark.parametrize(
    ("more", "over"), [([], "loader, train.seed"), (["loader=bload"], "train.seed")]
)
def test_a_sweep_without_m_is_refused_with_the_command_that_is_meant(
    monkeypatch, capsys, more, over
):
    arguments = ["experiment=paper_table_quick", *more]
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.run(train.main, "train", train.sweep)
    assert end.value.code == 2
    assert capsys.readouterr().err == (
        f"train.py: error: this experiment is several runs, over {over}; type "
        f"python train.py -m {' '.join(arguments)}\n"
    )


def test_one_run_of_an_experiment_needs_no_m():
    cli.check_is_one_run("train", ["experiment=paper_table_quick", "loader=bload", "train.seed=0"])

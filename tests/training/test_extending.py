"""docs/extending.md works as printed: one of each, added from outside, goes through everything."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from experiments.runs import read_runs
from tests.installation import run
from tests.training.jobs import REPOSITORY, only_run, overrides
from training.compose import compose_job

PAGE = (REPOSITORY / "docs" / "extending.md").read_text()


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("mine")
    for name, code in re.findall(
        r"^`(\S+\.(?:py|yaml))`.*?```(?:python|yaml)\n(.*?)```", PAGE, re.S | re.M
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    assert {p.name for p in folder.rglob("*.*")} >= {"next_fit.py", "mine.py", "long_blocks.yaml"}
    (folder / "library").mkdir()
    (folder / "library/bload").symlink_to(REPOSITORY / "bload")
    return folder


def run_python(folder: Path, *arguments: str) -> str:
    """Run Python in the folder, where only the library can be imported of this checkout."""
    more = {"PYTHONPATH": str(folder / "library"), "HOME": str(folder)}
    return run([sys.executable, *arguments], cwd=folder, more=more)


@pytest.mark.slow
def test_a_packer_a_temporal_part_and_a_data_set_are_trained_and_in_the_tables(
    mine, data_root, tmp_path
):
    line = overrides(data_root, tmp_path / "runs", "train.epochs=1")
    line = [o for o in line if not o.startswith("dataset.") or o.startswith("dataset.root")]
    data = ("dataset=first_frames", "dataset.frame_size=[32,32]", "dataset.frames=4")
    printed = run_python(mine, "mine.py", *line, *data, "loader=next_fit", "model.temporal=mean")
    assert "8 videos, 32 frames" in printed
    folder = only_run(tmp_path / "runs")
    assert folder.name.startswith("next_fit-dds_tiny-first_frames-s0-")
    code = "import next_fit, sys; from bload.__main__ import main; sys.exit(main(['table']))"
    (line,) = (line for line in run_python(mine, "-c", code).splitlines() if "next_fit" in line)
    assert "94" in line.split()
    assert read_runs(tmp_path / "runs")["loader.name"].tolist() == ["next_fit"]
    other = shutil.copytree(data_root, tmp_path / "other")
    lines = f"checkpoint={folder}", "device=cpu", f"root=null,{other}"
    assert run_python(mine, "mine.py", "eval", "-m", *lines).count("test: 16 frames") == 2


def test_a_model_of_ones_own_has_its_own_recipe_under_an_experiment(tmp_path):
    recipe = "# @package _global_\ndefaults: [dds_tiny, _self_]\ntrain: {lr: 1.0e-3}\n"
    for folder, text in (
        ("model", "defaults: [dds_tiny]\nname: wide\nwidth: 96\n"),
        ("recipe", recipe),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "wide.yaml").write_text(text)
    path, model = f"hydra.searchpath=[file://{tmp_path}]", "model=wide"
    alone = compose_job("train", [path, model])
    found = compose_job("train", [path, model, "experiment=ablations", "size=quick"])
    assert (found.model.width, found.train.lr) == (96, 1e-3)
    assert found.train.muon_lr == alone.train.muon_lr is not None


@pytest.mark.slow
def test_an_experiment_of_ones_own_is_a_sweep(mine, data_root, tmp_path):
    line = overrides(data_root, tmp_path / "runs", "train.epochs=1", "train.batch_slots=188")
    path = f"hydra.searchpath=[file://{mine}]"
    printed = run_python(mine, "mine.py", "-m", path, "experiment=long_blocks", *line)
    assert printed.count("\n| loader.t_max=") == 2
    assert len([p for p in (tmp_path / "runs").iterdir() if p.is_dir()]) == 2

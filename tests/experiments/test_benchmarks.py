"""Benchmarks: every quick form makes its tables, and what they compare with is right."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from experiments.benchmarks import packing, scaling
from experiments.benchmarks.__main__ import ALL, NAMES, changed_since, main
from experiments.benchmarks.gpu import make_gpu_job
from experiments.study import DOCS, ROOT
from tests.installation import run
from training.compose import compose_job

ALONE = """
import runpy, sys

sys.modules.update(dict.fromkeys(["hydra", "omegaconf", "wandb"]))
runpy.run_module("experiments.benchmarks", run_name="__main__")
"""
"""Runs the command where Hydra and wandb cannot be imported."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("benchmarks")


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in (*NAMES[1:], "chunks")]


@pytest.mark.parametrize("name", [NAMES[0], *SLOW])
def test_the_quick_form_makes_every_table_and_writes_no_page(name, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {page: page.read_text() for page in DOCS.rglob("*.md")}
    main(["--quick", name])
    shown = capsys.readouterr().out
    for table in import_module(f"experiments.benchmarks.{name}").TABLES.values():
        assert f"{table.caption}\n\n| " in shown
    assert {page: page.read_text() for page in DOCS.rglob("*.md")} == before


def test_tables_are_stale_if_what_they_time_has_changed(tmp_path):
    def git(*words):
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init")
    for name in ("timed.py", "other.py"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "both")
    commit = git("rev-parse", "HEAD").strip()
    (tmp_path / "other.py").write_text("2")
    assert changed_since(commit, ["timed.py"], tmp_path) == []
    (tmp_path / "timed.py").write_text("2")
    assert changed_since(commit, ["timed.py"], tmp_path) == ["timed.py"]
    assert changed_since(40 * "0", ["timed.py"], tmp_path) == ["timed.py"]
    for name in ALL:
        for path in import_module(f"experiments.benchmarks.{name}").CODE:
            assert (ROOT / path).exists()


def test_the_rules_of_others_fill_blocks_as_they_say():
    assert packing.torchtune(np.array([4, 4, 3, 6]), 8) == [[0, 1], [2], [3]]
    steps = packing.multipack(np.array([5, 3] * 8 + [8]), 8)
    assert sorted(map(sorted, steps[:8])) == [[n, n + 1] for n in range(0, 16, 2)]
    assert steps[8] == [16]


def test_the_schedule_alone_scales_by_the_steps_of_equal_blocks():
    eight, *_ = scaling.predict("bload_exact")
    assert (eight["ranks"], eight["steps"]) == (8, 222)  # of 1,775 blocks
    assert eight["speed-up"] == pytest.approx(1775 / 222)


def test_the_job_on_a_card_is_that_of_train_py():
    usual = compose_job("train", ["model=dds", "loader=bload", "train.amp=bf16"])
    job = make_gpu_job(False, "bload")
    assert (job.model, job.loss, job.train) == (usual.model, usual.loss, usual.train)
    assert job.loader.options == usual.loader.options
    assert job.dataset.root == usual.dataset.root


@pytest.mark.slow
def test_the_gpu_benchmark_is_rehearsed_without_hydra_and_wandb(folder):
    command = [sys.executable, "-c", ALONE, "gpu", "--quick"]
    more = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    assert run(command, cwd=folder, more=more).count("| bload_exact |") == 1
    assert (folder / "runs/benchmarks_quick/gpu.csv").exists()

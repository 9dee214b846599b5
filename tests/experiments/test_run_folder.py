"""The name of a run follows from its config; its metrics can go back to a checkpoint."""

import json
import re

import pytest

from experiments.run_folder import RunFolder, run_name


def test_the_same_config_has_the_same_name(config):
    first, second = config(), config()
    assert run_name(first, 2) == run_name(second, 2)
    assert re.fullmatch(r"bload-dds_tiny-synthetic-s0-r2-[0-9a-f]{8}", run_name(first, 2))


@pytest.mark.parametrize(
    "change",
    [
        "train.seed=1",
        "loader=bload_exact",
        "loader.draw=length",
        "loader.t_max=50",
        "train.lr=0.5",
        "train.batch_frames=65",
        "train.epochs=3",
        "train.amp=bf16",
        "model.width=32",
        "dataset.seed=4",
        "loss.relations_on=all",
    ],
)
def test_what_changes_training_changes_the_name(config, change):
    assert run_name(config(change), 1) != run_name(config(), 1)


def test_the_ranks_change_the_name(config):
    assert len({run_name(config(), ranks) for ranks in (1, 2, 4)}) == 3


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("loader.t_max=50", "-T50-s0"),
        ("model.temporal=gru", "-gru-s0"),
        ("train.starts=wrong", "-starts_wrong-s0"),
        ("train.padding=repeated", "-padding_repeated-s0"),
        ("train.seed=7", "-synthetic-s7-r1-"),
    ],
)
def test_people_can_tell_runs_apart_by_their_names(config, change, part):
    assert part in run_name(config(change), 1)


@pytest.mark.parametrize(
    "change",
    [
        "train.workers=5",
        "train.device=auto",
        "train.log_every=3",
        "train.checkpoint_every=3",
        "wandb.mode=online",
        "wandb.group=mine",
        "launch.nproc=2",
        "experiment.name=mine",
        "run.resume=never",
        "run.root=elsewhere",
    ],
)
def test_what_does_not_change_training_does_not_change_the_name(config, change):
    assert run_name(config(change), 1) == run_name(config(), 1)


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(str(tmp_path), "run")
    folder.open(0)
    return folder


def write(folder, lines):
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(folder):
    return [json.loads(text) for text in folder.metrics.read_text().splitlines()]


LINES = [
    {"kind": kind, "epoch": epoch, "step": step, "loss": 0.1 + epoch}
    for epoch in range(3)
    for kind, step in [("step", 1), ("step", 2), ("step", 3), ("epoch", 3), ("eval", 3)]
]


@pytest.mark.parametrize(
    ("epoch", "step", "kept"), [(0, 0, 0), (0, 2, 2), (1, 0, 5), (1, 1, 6), (2, 2, 12), (3, 0, 15)]
)
def test_going_back_drops_exactly_the_later_lines(folder, epoch, step, kept):
    write(folder, LINES)
    folder.rewind_metrics(epoch, step)
    assert read(folder) == LINES[:kept]


def test_going_back_drops_a_summary_for_it_will_be_written_again(folder):
    write(folder, [*LINES, {"kind": "summary", "epoch": 3, "step": 0}])
    folder.rewind_metrics(3, 0)
    assert read(folder) == LINES


def test_half_a_line_of_a_killed_process_is_dropped(folder):
    write(folder, LINES)
    whole = folder.metrics.read_text()
    folder.metrics.write_text(whole[:-20])
    folder.rewind_metrics(3, 0)
    assert read(folder) == LINES[:-1]


def test_going_back_before_anything_was_written_is_fine(folder):
    folder.rewind_metrics(0, 0)
    assert not folder.metrics.exists()


def test_a_fresh_start_forgets_the_run_and_nothing_else(folder):
    for path in (folder.last, folder.best, folder.summary, folder.error, folder.metrics):
        path.write_text("old")
    (folder.path / "notes.txt").write_text("mine")
    folder.clear()
    assert sorted(path.name for path in folder.path.iterdir()) == ["notes.txt", "rank0.log"]


def test_every_rank_has_its_own_log(tmp_path):
    folder = RunFolder(str(tmp_path), "run")
    for rank in (0, 1, 0):  # opened again, a log goes on
        folder.open(rank).info("rank %d was here", rank)
    for rank, lines in ((0, 2), (1, 1)):
        text = (folder.path / f"rank{rank}.log").read_text()
        assert text.count(f"rank {rank} was here") == lines == text.count("\n")

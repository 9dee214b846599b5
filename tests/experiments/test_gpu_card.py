"""What is measured on a GPU: its parts stop in time and fail alone, its tables are made from its
record, and all of it runs on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from bload import BlockLoader, InputError
from experiments import gpu_card
from experiments.card import loss_curve, memory, peak, record, tables, walk_share
from experiments.card.bench import Bench, job_of
from experiments.card.frames import FramesInMemory
from experiments.card.record import read_json, run_part
from experiments.card.scale import LOADERS, full, rehearsal
from experiments.card.throughput import Turns
from models import branch
from tests.training.jobs import REPOSITORY, compose_config
from training.step import compute_losses, step_counts

CPU = torch.device("cpu")
ALONE = """
import sys, runpy, socket

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("hydra", "omegaconf", "wandb"):
            raise ModuleNotFoundError(f"{name} is not installed")

def no_network(*_):
    raise OSError("there is no network")

sys.meta_path.insert(0, Absent())
socket.getaddrinfo = no_network
sys.argv = ["gpu_card", *sys.argv[1:]]
runpy.run_module("experiments.gpu_card", run_name="__main__")
"""
"""Runs the command where Hydra and wandb cannot be imported and no address is found."""


def alone(*arguments):
    return subprocess.run(
        [sys.executable, "-c", ALONE, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def bench():
    return Bench(CPU, rehearsal())


def parts_of(folder):
    return read_json(folder / "rehearsal.json")["parts"]


def test_it_runs_without_hydra_wandb_or_network(tmp_path):
    done = alone("--cpu-rehearsal", "--parts", "peak", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (row,) = parts_of(tmp_path)["peak"]["rows"]
    assert row["measured"] > 0


@pytest.mark.slow
def test_the_rehearsal_runs_every_part_and_its_tables_are_made(tmp_path):
    done = alone("--cpu-rehearsal", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    parts = parts_of(tmp_path)
    assert list(parts) == list(gpu_card.PARTS)
    assert all(
        part["rows"] and not part["failed"] and not part["left_out"] for part in parts.values()
    )
    rows = parts["throughput"]["rows"]
    scale = rehearsal()
    assert len(rows) == len(scale.subjects) * len(scale.settings) * len(LOADERS)
    assert all(len(row["frames_per_s"]) == scale.rounds for row in rows)
    (curve,) = parts["loss_curve"]["rows"]
    assert curve["losses"] == curve["cpu_losses"]
    assert len(curve["losses"]) == scale.curve_steps
    assert all(row["equal"] for row in parts["one_rank"]["rows"])
    for row in parts["memory"]["rows"]:
        assert (row["slots"], row["refused"]) == (20, None)
        assert row["peak_gib"] > 0
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n")
    for _ in range(2):  # the second time over the first
        made = alone("--tables", str(tmp_path / "rehearsal.json"), "--into", str(page))
        assert made.returncode == 0, made.stderr
    text = page.read_text()
    assert text.startswith(f"before\n{tables.BEGIN}")
    assert text.endswith(f"{tables.END}\nafter\n")
    assert "old" not in text
    assert text.count("| bload_exact |") == len(scale.subjects)
    assert "A rehearsal on CPUs" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "torch sees no GPU; use a machine with one, or give --cpu-rehearsal"),
        (["--minutes", "0"], "--minutes is 0"),
        (["--into", "page.md"], "give their record with --tables FILE"),
        (["--tables", "absent.json"], "absent.json cannot be read"),
    ],
)
def test_bad_options_and_a_missing_card_get_a_sentence(arguments, sentence, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        gpu_card.main(arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.gpu
def test_a_card_agrees_with_itself_and_with_the_cpu(tmp_path):
    parts = ["peak", "one_rank", "loss_curve"]
    gpu_card.main(["--out", str(tmp_path), "--parts", *parts])
    (file,) = tmp_path.iterdir()
    assert list(read_json(file)["parts"]) == parts


def test_units_fail_alone_and_those_without_time_are_named(monkeypatch):
    ran = []

    def unit(name, rows):
        def run():
            ran.append(name)
            if rows is None:
                raise InputError("there is no card")
            return rows

        return name, run

    rows = [{"one": 1}], None, [{"problem": "it differs"}], [{}]
    units = list(map(unit, ("first", "broken", "wrong", "last"), rows))
    clock, tidied = iter(range(10)), []
    monkeypatch.setattr(record.time, "monotonic", lambda: next(clock))  # looks, not seconds
    part = run_part(lambda: units, 3, lambda: tidied.append(1))
    assert part["rows"] == [{"one": 1}, {"problem": "it differs"}]
    assert part["failed"] == ["broken: InputError: there is no card", "wrong: it differs"]
    assert part["left_out"] == ["last"]
    assert ran == ["first", "broken", "wrong"]
    assert len(tidied) == 3


def test_a_failed_part_sets_the_status_and_the_record_keeps_the_others(tmp_path, monkeypatch):
    arguments = ["--cpu-rehearsal", "--out", str(tmp_path), "--parts"]
    gpu_card.main([*arguments, "peak"])
    monkeypatch.setitem(gpu_card.PARTS, "walk", (0.1, lambda bench: [("it", lambda: 1 / 0)]))
    with pytest.raises(SystemExit) as end:
        gpu_card.main([*arguments, "walk"])
    assert end.value.code == 1
    parts = parts_of(tmp_path)
    assert list(parts) == ["peak", "walk"]
    assert parts["walk"]["failed"] == ["it: ZeroDivisionError: division by zero"]
    text = tables.as_markdown(read_json(tmp_path / "rehearsal.json"))
    assert "* Failed in `walk`: it: ZeroDivisionError: division by zero." in text


@pytest.mark.parametrize("model", ["dds", "dds_tiny"])
def test_a_job_is_that_of_train_py(model, command_line):
    subject = next(one for one in full().subjects if one.model == model)
    mine = job_of(subject, "0.5", "bf16")
    job = compose_config(
        "train",
        [
            *(f"model={model}", "model.checkpoint=0.5", "train.amp=bf16"),
            *("wandb.mode=disabled", f"train.batch_frames={subject.batch_frames}"),
        ],
    )
    assert mine.model == job.model
    assert mine.loss == job.loss
    expected = {**vars(job.train), "checkpoint_every": mine.train.checkpoint_every}
    assert vars(mine.train) == expected


def test_frames_in_memory_are_a_source_of_the_lengths_given():
    source = FramesInMemory(np.array([3, 40, 7]), (16, 24))
    frames = 0
    for batch in BlockLoader(source, "naive", batch_frames=80, rank=0, world_size=1):
        assert batch.frames_BT.shape[2:] == (3, 16, 24)
        assert len(batch.targets) == int(batch.valid_BT.sum())
        assert len({target.name for target in batch.targets}) == len(batch.targets)
        frames += len(batch.targets)
    assert frames == 50
    for target in source.targets(1, 0, 40):
        assert len(target.object_boxes_M4) == len(target.object_classes_M)
        assert target.relations_MR().sum() == 3 * len(target.object_classes_M)


@pytest.mark.parametrize("limit", [5, 16, 17, 93, 1000])
def test_the_longest_block_is_found_by_doubling_and_bisection(limit):
    found, refused = memory.longest(lambda slots: slots <= limit, None)
    if limit < memory.FIRST:
        assert (found, refused) == (0, memory.FIRST)
    else:
        assert found <= limit < refused
        assert refused - found <= max(1, memory.PRECISION * refused)


def test_no_longer_block_than_the_limit_is_tried():
    assert memory.longest(lambda slots: True, 40) == (40, None)
    assert memory.longest(lambda slots: slots < 33, 40)[0] == 32


def test_a_step_that_does_not_fit_is_no_failure(bench, monkeypatch):
    def no_memory(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(memory, "train_step", no_memory)
    (row,) = memory.block_rows(bench, bench.scale.subjects[1], "none")
    assert (row["slots"], row["refused"], row["peak_gib"]) == (0, memory.FIRST, None)


def test_rates_are_those_of_an_epoch_whatever_the_few_steps_hold():
    source = FramesInMemory(np.array([10, 5, 5]), (16, 16))
    loader = BlockLoader(source, "naive", rank=0, world_size=1)
    turns = Turns("naive", loader, loader.by_step(), slots=[10, 20], seconds=[2.0, 2.0])
    assert turns.frames_per_s == pytest.approx([10 / 3, 20 / 3])  # 20 frames in 30 slots


def test_the_walk_that_is_timed_is_the_one_of_the_step(bench):
    subject = bench.scale.subjects[1]
    training, batches = bench.training(subject), next(bench.loader(subject).by_step())
    expected = []
    through_time = branch.in_chunks

    def keep(*given):
        output, state = through_time(*given)
        expected.append(output.detach())
        return output, state

    with mock.patch.object(branch, "in_chunks", keep):
        compute_losses(training, batches[0], 0, step_counts(training, batches)[0])
    inputs = walk_share.walked_inputs(training, batches[0])
    for output, one in zip(walk_share.walk_once(training, *inputs), expected, strict=True):
        torch.testing.assert_close(output, one, atol=1e-2, rtol=1e-2)  # half precision
    (row,) = walk_share.share_rows(bench, subject)
    assert row["walk_ms"] > 0
    assert row["step_ms"] > 0


def test_curves_that_part_are_a_problem(bench, monkeypatch):
    curves = iter([[10.0, 9.0, 8.0], [10.0, 9.0, 8.1]])
    monkeypatch.setattr(loss_curve, "curve", lambda *_: next(curves))
    (row,) = loss_curve.rows(bench, bench.scale.subjects[1])
    assert row["at_first"] == pytest.approx(0.1 / 8.1)
    assert row["later"] == pytest.approx(0.1 / 27.1)
    assert "differ from the CPU's by 1.2e-02 in the first 5 steps" in row["problem"]


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA A10G", None),
    ],
)
def test_a_known_card_has_the_peak_of_its_data_sheet(name, teraflops, monkeypatch):
    monkeypatch.setattr(peak, "card_name", lambda device: name)
    found = peak.find_peak(CPU, 16)
    assert found.datasheet == (teraflops and teraflops * 1e12)
    assert found.value == (found.datasheet or found.measured)


def test_flops_of_a_slot_do_not_depend_on_the_block(bench, monkeypatch):
    tiny = bench.scale.subjects[1]
    usual = bench.flops(tiny)
    monkeypatch.setattr("experiments.card.bench.SLOTS", 3)
    assert Bench(CPU, bench.scale).flops(tiny) == pytest.approx(usual, rel=0.02)
    assert usual > 1e6


def test_a_page_without_markers_and_a_file_without_parts_are_refused(tmp_path):
    file = tmp_path / "record.json"
    file.write_text(json.dumps({"rows": []}))
    with pytest.raises(InputError, match="has no parts"):
        read_json(file)
    page = Path(tmp_path, "page.md")
    page.write_text("nothing")
    part = {
        "command": "python -m experiments.gpu_card",
        "versions": {"torch": "2"},
        "git": None,
        **{"seconds": 60, "rows": [], "failed": [], "left_out": ["memory of dds"]},
    }
    made = {"card": "a card", "rehearsal": False, "parts": {"memory": part}}
    assert "Left out of `memory` for lack of time: memory of dds." in tables.as_markdown(made)
    with pytest.raises(InputError, match="has no lines"):
        tables.show(made, page)
    assert page.read_text() == "nothing"

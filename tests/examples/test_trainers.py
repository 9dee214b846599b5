"""The examples of trainers on 2 ranks, in an environment with their requirements."""

import json
import runpy
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bload import BlockSampler
from tests.installation import ROOT, Environment, torchrun

FOLDER = ROOT / "examples/trainers"
TRAINERS = {
    "ddp": "ddp.py",
    "fsdp": "fsdp.py",
    "lightning": "with_lightning.py",
    "accelerate": "with_accelerate.py",
    "stateful-dataloader": "with_stateful_dataloader.py",
}
EPOCHS = 8
STOP = 11
"""Batches until the run that is killed ends: its last checkpoint is inside an epoch."""
slow = [pytest.mark.slow, pytest.mark.dist]


@pytest.mark.slow
def test_layers_of_other_libraries_see_each_sequence_alone(environment, tmp_path):
    environment.run(ROOT / "tests/examples/layers_of_libraries.py", cwd=tmp_path)


@dataclass
class Run:
    """What the ranks of a run trained."""

    lines: list[list[dict[str, Any]]]
    """By rank and batch: the sequences, and a digest of the parameters before it."""
    weights: list[dict[str, Tensor]]
    """By rank, at the end."""


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    files = [("-r", FOLDER / f"requirements-{name}.txt") for name in TRAINERS]
    folder = tmp_path_factory.mktemp("trainers") / "environment"
    return Environment(folder, wheel, "torchrl", "x-transformers", *chain.from_iterable(files))


@pytest.fixture(scope="module", params=TRAINERS)
def runs(request, environment, tmp_path_factory):
    """A run, one that is killed, and that one started again, on as many ranks and on three."""
    folder = tmp_path_factory.mktemp(request.param)
    program = Path(__file__).with_name("recorded.py")
    environment.run(program, FOLDER / TRAINERS[request.param], folder, str(STOP), cwd=folder)
    return [read_run(folder / name) for name in ("whole", "killed", "resumed", "elastic")]


def read_run(folder: Path) -> Run:
    lines = [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("rank*.jsonl"))
    ]
    return Run(lines, [torch.load(path) for path in sorted(folder.glob("rank*.pt"))])


@pytest.fixture(scope="module")
def task():
    return runpy.run_path(str(FOLDER / "task.py"))


@pytest.fixture(scope="module")
def steps(task):
    """Steps of an epoch on each of two ranks."""
    return len(BlockSampler(task["Source"].lengths, rank=0, world_size=2))


class TestTrainer:
    pytestmark = slow

    def test_every_epoch_trains_every_sequence_once_in_equally_many_steps(self, runs, steps, task):
        whole, *_ = runs
        assert [len(lines) for lines in whole.lines] == [EPOCHS * steps] * 2
        for one, other in zip(*whole.lines, strict=True):
            assert one["parameters"] == other["parameters"]
        epochs = set()
        for first in range(0, EPOCHS * steps, steps):
            epoch = [line for lines in whole.lines for line in lines[first : first + steps]]
            trained = sorted(s for line in epoch for s in line["sequences"])
            assert trained == [*range(len(task["Source"].lengths))]
            epochs.add(frozenset(frozenset(line["sequences"]) for line in epoch))
        assert len(epochs) == EPOCHS  # each has new blocks

    def test_a_run_killed_inside_an_epoch_goes_on_as_if_it_had_not_been(self, runs, steps):
        whole, killed, resumed, _ = runs
        assert [len(lines) for lines in killed.lines] == [STOP] * 2
        for all_lines, before, after in zip(whole.lines, killed.lines, resumed.lines, strict=True):
            first = len(all_lines) - len(after)
            assert 0 < first <= STOP
            assert first % steps
            assert before == all_lines[:STOP]
            assert after == all_lines[first:]
        for wanted, found in zip(whole.weights, resumed.weights, strict=True):
            assert all(torch.equal(wanted[name], value) for name, value in found.items())

    def test_on_three_ranks_it_trains_what_is_left_of_every_epoch_once(self, runs, steps, task):
        whole, killed, resumed, elastic = runs
        if not elastic.lines:
            pytest.skip("Lightning keeps the old length of an epoch")
        done = len(whole.lines[0]) - len(resumed.lines[0])  # steps before the checkpoint
        parts = [list(zip(*killed.lines, strict=True))[:done]]
        parts += [list(zip(*elastic.lines, strict=True))]
        trained = [s for part in parts for step in part for line in step for s in line["sequences"]]
        count = len(task["Source"].lengths)
        firsts = range(0, len(trained), count)
        epochs = [Counter(trained[first : first + count]) for first in firsts]
        assert epochs == [Counter(range(count))] * EPOCHS

    def test_the_weights_are_those_of_the_mean_over_all_frames(self, runs, task):
        """Trained once more in one process, each sequence alone."""
        whole, *_ = runs
        torch.manual_seed(0)
        model, source = task["Tagger"](), task["Source"]()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        for one, other in zip(*whole.lines, strict=True):
            items = [
                source.read(s, 0, source.lengths[s]) for s in one["sequences"] + other["sequences"]
            ]
            logits = [model.head(model.gru(frames[None])[0][0]) for frames, _ in items]
            optimiser.zero_grad()
            cross_entropy(torch.cat(logits), torch.cat([kinds for _, kinds in items])).backward()
            optimiser.step()
        for weights in whole.weights:
            for name, value in model.state_dict().items():
                torch.testing.assert_close(weights[name], value, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.dist
def test_lightning_validates_tests_predicts_and_trains_in_half_precision(environment, tmp_path):
    program = Path(__file__).with_name("other_ways.py")
    assert environment.run(*torchrun(2), program, cwd=tmp_path).count("seen") == 2

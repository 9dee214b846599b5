"""train.compile: graphs are counted, and what they compute is what the network computes."""

from functools import partial
from unittest import mock

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.cpp_builder import cpp_compiler_search
from training.compiling import FirstStep, check_compile, compile_network

import train
from bload.errors import InputError
from models.temporal import PARTS
from tests.training.jobs import metrics, one_rank, only_run
from training import build as training

SMALL = (
    *("model.width=16", "model.heads=2", "model.feedforward=16", "model.queries=4"),
    *("model.decoder_layers=1", "train.log_every=1", "train.lr=1e-3"),
)


@pytest.fixture
def graphs(monkeypatch):
    """The number of graphs so far; they are made without a C++ compiler."""
    traced = partial(compile_network, backend="aot_eager")
    monkeypatch.setattr(training, "compile_network", traced)
    torch.compiler.reset()
    counters.clear()
    yield lambda: counters["stats"]["unique_graphs"]
    torch.compiler.reset()


def losses(folder):
    return torch.tensor([line["loss"] for line in metrics(folder) if line["kind"] == "step"])


@pytest.mark.parametrize(
    "temporal",
    [pytest.param(name, marks=() if name == "dds" else pytest.mark.slow) for name in PARTS],
)
def test_a_run_takes_one_graph_and_has_the_same_losses(config, tmp_path, graphs, temporal):
    for on in (False, True):
        job = config(*SMALL, f"model.temporal={temporal}", f"train.compile={on}", runs=str(on))
        train.train(job, one_rank())
    eager, compiled = (losses(only_run(tmp_path / str(on))) for on in (False, True))
    assert len(eager) > 2
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=0)
    assert graphs() == 1
    assert not counters["graph_break"]


@pytest.mark.slow
def test_a_memory_that_goes_on_takes_one_graph_more(config, graphs):
    stream = ("loader.long=carry", "loader.t_max=20", "train.compile=true")
    train.train(config(*SMALL, *stream), one_rank())
    assert graphs() == 2


@pytest.mark.slow
def test_batches_of_many_sizes_take_a_few_graphs(config, graphs):
    job = config(*SMALL, "loader=ragged", "train.batch_frames=50", "train.compile=true")
    train.train(job, one_rank())
    assert graphs() <= 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.padding=skipped", "set model.padding=computed"),
        ("train.exchange=frames", "set train.exchange=none"),
        ("model.checkpoint=offload", "choose another model.checkpoint than offload"),
    ],
)
def test_what_cannot_be_compiled_is_refused(config, change, words):
    check_compile(config(change), torch.device("cpu"))
    with pytest.raises(InputError, match=words):
        check_compile(config(change, "train.compile=true"), torch.device("cpu"))


def test_without_a_compiler_a_run_says_what_to_install_before_it_reads_data(
    command_line, sentence, monkeypatch, tmp_path
):
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (str(tmp_path / "no-such-compiler"),))
    cpp_compiler_search.cache_clear()
    said = sentence(train, *command_line("train.compile=true", "dataset.root=/nowhere"))
    assert "install one (apt-get install g++)" in said


def test_the_first_step_is_told_once():
    step = FirstStep(speaks=True)
    assert [step.add(seconds) for seconds in (41, 0.3)] == ["", ""]
    assert step.add(0.2) == "compiling: the first step took 41 s; later ones 0.2 s"
    assert step.add(0.1) == ""
    silent = FirstStep(speaks=False)
    assert [silent.add(1) for _ in range(4)] == [""] * 4


@pytest.mark.slow
@pytest.mark.dist
def test_two_ranks_have_the_same_losses(config, tmp_path, two_ranks):
    for on in (False, True):
        two_ranks.run(
            train_traced, config(*SMALL, f"train.compile={on}", runs=str(on)), timeout=300
        )
    eager, compiled = (losses(only_run(tmp_path / str(on))) for on in (False, True))
    torch.testing.assert_close(compiled, eager, rtol=1e-5, atol=0)


def train_traced(ranks, config):
    with mock.patch.object(
        training, "compile_network", partial(compile_network, backend="aot_eager")
    ):
        train.train(config, ranks)


@pytest.mark.slow
def test_a_compiled_run_says_how_long_it_compiled(config, tmp_path, capsys):
    for on in (False, True):
        train.train(config(*SMALL, f"train.compile={on}", runs=str(on)), one_rank())
    eager, compiled = (losses(only_run(tmp_path / str(on))) for on in (False, True))
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=0)
    assert "compiling: the first step took" in capsys.readouterr().out

"""Blocks in transformers' `Trainer`, in an environment of its own: resume, ranks, stock models."""

import json

import pytest
import torch

from tests.installation import ROOT, Environment, torchrun

HERE = ROOT / "tests/examples"
FOLDER = ROOT / "examples/trainers"


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformers") / "environment"
    return Environment(folder, wheel, "-r", FOLDER / "requirements-transformers.txt")


@pytest.mark.slow
@pytest.mark.parametrize("program", ["packed_by_transformers.py", "forms_by_transformers.py"])
def test_stock_models_compute_on_blocks_what_they_compute_on_texts(program, environment, tmp_path):
    environment.run(HERE / program, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.dist
def test_two_ranks_equal_one_that_accumulates_more_and_a_killed_run_goes_on(environment, tmp_path):
    def train(ranks, folder, *arguments, fails=False):
        command = *torchrun(ranks), HERE / "trained_by_transformers.py", tmp_path / folder
        environment.run(*command, *arguments, cwd=tmp_path, fails=fails)

    train(1, "one", "4")
    train(2, "two", "2")  # 39 batches in an epoch: its last step has one
    train(2, "killed", "2", "27", fails=True)
    train(2, "killed", "2")
    one, two, killed = (torch.load(tmp_path / of / "end.pt") for of in ("one", "two", "killed"))
    assert 1 < two["loss"] < 2.5
    assert two["loss"] == killed["loss"] == pytest.approx(one["loss"], rel=0.01)
    for name, value in two["weights"].items():
        assert torch.equal(value, killed["weights"][name])
        torch.testing.assert_close(value, one["weights"][name])


@pytest.mark.slow
def test_the_benchmark_of_a_card_times_compiled_blocks(environment, tmp_path):
    way, file = "bload_exact, compiled", ROOT / "experiments/benchmarks/trainer.py"
    program = "import io, runpy, sys; _, file, way = sys.argv; sys.argv[1:] = '-', '1'; "
    program += "sys.stdin = io.StringIO(way); runpy.run_path(file, run_name='__main__')"
    said = environment.run("-c", program, file, way, cwd=tmp_path)
    row = json.loads(said.split("timed on a card: ")[1])
    assert (row["way"], row["graphs compiled"], row["tokens/s"] > 0) == (way, 1, True)  # one shape

"""``train.deterministic=true``: one machine and as many ranks give the same bits every time."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest
import torch
from torch.backends import cudnn

import train
from tests.training.jobs import assert_same_run, only_run
from training.ranks import join_ranks

OPTIONS = ("train.deterministic=true", "train.epochs=1", "train.log_every=1", "model.dropout=0.3")


@pytest.fixture
def as_before() -> Iterator[None]:
    """Puts back what holds for the whole process."""
    with mock.patch.dict(os.environ), cudnn.flags(enabled=True, benchmark=True):
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_deterministic_run_computes_the_same_bits_twice(config, tmp_path, device):
    for runs in ("one", "other"):
        cfg = config(*OPTIONS, f"train.device={device}", runs=runs)
        train.train(cfg, join_ranks(device, 60, True))
        assert torch.are_deterministic_algorithms_enabled()
        assert cudnn.deterministic
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert_same_run(only_run(tmp_path / "one"), only_run(tmp_path / "other"))

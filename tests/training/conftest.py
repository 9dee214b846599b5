"""One small synthetic root, one finished run, and one pair of ranks for all tests of training."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

import train
from datasets.synthetic.writer import make_if_missing
from tests.several_ranks import SeveralRanks, start_ranks
from tests.training.jobs import WORLD, one_rank, only_run, overrides
from training.compose import compose_job
from training.config import TrainJob
from training.report import page


@pytest.fixture
def pages() -> None:
    """Runs end with a page."""


@pytest.fixture(autouse=True)
def without_pages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without one, which takes four times as long as they do, except with `pages`."""
    if "pages" not in request.fixturenames:
        monkeypatch.setattr(page, "write_or_warn", lambda *_: None)


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_if_missing(tmp_path_factory.mktemp("data") / "root", **asdict(WORLD))


@pytest.fixture
def command_line(data_root: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """The overrides of a small job whose runs go to ``tmp_path / "runs"``, and some more."""
    return lambda *more, runs="runs": overrides(data_root, tmp_path / runs, *more)


@pytest.fixture
def config(command_line: Callable[..., list[str]]) -> Callable[..., TrainJob]:
    """The same job as `train.train` takes it."""
    return lambda *more, runs="runs": compose_job("train", command_line(*more, runs=runs))


@pytest.fixture(scope="session")
def small_job(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """The same job without more overrides; only to be read."""
    return compose_job("train", overrides(data_root, tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="session")
def finished(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one epoch; only to be read."""
    runs = tmp_path_factory.mktemp("finished")
    lines = overrides(data_root, runs, "train.epochs=1", "train.log_every=1")
    train.train(compose_job("train", lines), one_rank())
    return only_run(runs)


@pytest.fixture
def four_ranks(tmp_path: Path) -> Iterator[SeveralRanks]:
    yield from start_ranks(tmp_path, 4)

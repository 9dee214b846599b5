"""A run on several ranks goes on after a stop, on as many of them or on others."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

import train
from bload import InputError
from tests.training import jobs
from tests.training.jobs import assert_same_run, metrics, one_rank, only_run, train_until
from training.config import EvalJob
from training.evaluation import evaluate_checkpoint
from training.optimiser import rate_factor
from training.stopping import AgreedError

SAVING = ("train.checkpoint_minutes=0", "train.log_every=1")
OFTEN = (*SAVING, "train.eval_every=1")
SHORT = (*SAVING, "loader=naive", "train.epochs=1")
"""A block a video: 4 steps of 2 ranks, 3 of 3."""
APART = ("train.sync=local", "train.sync_every=3", "train.ema=0.5")


@pytest.mark.dist
@pytest.mark.parametrize(
    ("ranks", "options", "at"),
    [
        ("two_ranks", ("model.dropout=0.3",), (0, 3)),
        # In a sum of three the order counts: the first step after a stop has to sum as the others.
        pytest.param("three_ranks", ("train.ema=0.9",), (0, 1), marks=pytest.mark.slow),
        # Between averages.
        pytest.param("two_ranks", APART, (0, 3), marks=pytest.mark.slow),
    ],
    ids=["two", "three", "apart"],
)
def test_ranks_that_are_interrupted_end_with_the_same_weights(
    config, tmp_path, request, ranks, options, at
):
    several = request.getfixturevalue(ranks)
    several.run(train_until, config(*SHORT, *options, runs="whole"))
    several.run(train_until, config(*SHORT, *options, runs="halves"), at)
    several.run(train_until, config(*SHORT, *options, runs="halves"))
    assert_same_run(only_run(tmp_path / "whole"), only_run(tmp_path / "halves"))


def refused_on_own_disks(ranks, cfg):
    cfg = replace(cfg, run=replace(cfg.run, root=f"{cfg.run.root}/{ranks.rank}", name="here"))
    train_until(ranks, cfg, (0, 1))
    with pytest.raises(InputError, match=r"only some ranks find a checkpoint .* run\.root"):
        train_until(ranks, cfg)


@pytest.mark.dist
def test_machines_that_share_no_folder_are_told_when_they_resume(config, two_ranks):
    two_ranks.run(refused_on_own_disks, config(*SHORT))


def refused_at_different_steps(ranks, cfg):
    paths = []
    for step in (1, 3):  # of which rank 0 may be writing the last
        job = replace(cfg, run=replace(cfg.run, name=f"{step}"))
        train_until(ranks, job, (0, step))
        paths.append(Path(cfg.run.root, job.run.name, "last.pt"))
    with pytest.raises(AgreedError, match=r"ranks read .*last\.pt at different steps"):
        evaluate_checkpoint(EvalJob(""), paths[ranks.rank], ranks, {})


@pytest.mark.dist
def test_ranks_evaluate_one_checkpoint(config, two_ranks):
    two_ranks.run(refused_at_different_steps, config(*SHORT))


def steps_of(folder):
    lines = [line for line in metrics(folder) if line["kind"] == "step"]
    return [(line["epoch"], line["step"]) for line in lines], [line["loss"] for line in lines]


@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize(
    "options", [("loader=naive",), ("loader.t_max=9", "loader.long=carry", "model.time=gap")]
)
def test_a_run_on_four_two_one_and_two_ranks_takes_the_same_steps(
    config, tmp_path, two_ranks, four_ranks, options
):
    """Steps of 180 slots, the same ones, whichever ranks share them out."""
    often = (*OFTEN, *options, "train.epochs=4", "run.name=here")
    train.train(config(*often, "train.batch_slots=180", runs="whole"), one_rank())
    two, four = config(*often, "train.batch_slots=90"), config(*often, "train.batch_slots=45")
    four_ranks.run(train_until, four, (1, 1))  # inside an epoch
    two_ranks.run(train_until, two, (2, 0))
    train_until(one_rank(), config(*often, "train.batch_slots=180"), (2, 1))
    two_ranks.run(train_until, two)
    wanted, losses = steps_of(tmp_path / "whole" / "here")
    steps, found = steps_of(tmp_path / "runs" / "here")
    assert steps == wanted
    # sums in another order differ by 1e-7, of which eight steps make 5e-6
    assert found[:4] == pytest.approx(losses[:4], rel=1e-6)
    assert found == pytest.approx(losses, rel=2e-5)


@pytest.mark.slow
@pytest.mark.dist
def test_a_run_goes_on_in_its_folder_on_two_one_and_three_ranks(
    config, tmp_path, two_ranks, three_ranks
):
    """Eight videos in blocks of their own: two steps of 2, three of 1, and the last block of 3."""
    cfg = config(*OFTEN, "loader=naive", "run.resume=elastic", "run.name=here")
    trained = two_ranks.run(train_and_record, cfg, (0, 2))
    with pytest.raises(InputError, match=r"another plan.*run\.resume=elastic goes on"):
        train_until(one_rank(), config(*OFTEN, "loader=naive", "run.name=here"))
    trained.append(train_and_record(one_rank(), cfg, (0, 4)))
    trained.append(train_and_record(one_rank(), cfg, (0, 5)))  # the same command again
    trained += three_ranks.run(train_and_record, cfg, None)
    trained += three_ranks.run(train_and_record, cfg, None)  # it had finished
    videos = sorted(pair for part in trained for pair in part)
    assert videos == [(epoch, video) for epoch in range(2) for video in range(8)]
    lines = metrics(only_run(tmp_path / "runs"))
    steps = [line for line in lines if line["kind"] == "step"]
    ends = [(line["steps"], line["frames"], line["filler"]) for line in lines if "filler" in line]
    assert ends[:2] == [(6, 174, 2 * 45), (3, 174, 45)]
    # rates follow from the blocks that are done
    shares = [*(blocks / 8 for blocks in (2, 4, 5, 6, 7, 8)), 1 + 1 / 3, 1 + 2 / 3, 2]
    rates = [cfg.train.lr * rate_factor(cfg.train, share) for share in shares]
    assert [line["lr"] for line in steps] == pytest.approx(rates)


def train_and_record(ranks, config, at):
    """Train until a step; return the epoch and number of every video that this rank trained."""
    with mock.patch.object(jobs, "train_step", wraps=jobs.train_step) as steps:
        train_until(ranks, config, at)
    return [
        (position.epoch, sequence)
        for _, batches, position, _ in (call.args for call in steps.call_args_list)
        for batch in batches
        for sequence in batch.segments.sequence_S.tolist()
    ]

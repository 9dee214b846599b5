"""A cost that is timed: the law behind the times is found, kept by the run and taken up again."""

import json
from dataclasses import astuple
from unittest import mock

import numpy as np
import pytest

from bload import Cost
from datasets.build import build_source
from tests.training.jobs import one_rank
from training import fit
from training.data import open_data

TRUE = Cost(slot=2.0, frame=0.1, walk=0.7, launch=3.0)
OPTIONS = ("loader.cost=fitted", "loader.balance=pairs", "train.batch_slots=90")


def by_law(_, batch):
    return float(np.dot(astuple(TRUE), fit.work_of(batch))) / 1000


def test_the_law_behind_the_times_is_found_and_kept(config, tmp_path):
    saved = tmp_path / "cost.json"
    with mock.patch.object(fit, "time_batch", by_law):
        data = open_data(config(*OPTIONS), one_rank(), saved)
    assert astuple(data.loader.sampler.cost) == pytest.approx(astuple(TRUE), abs=1e-6)
    saved.write_text(json.dumps({"slot": 5.0, "walk": 1.0}))
    again = open_data(config(*OPTIONS), one_rank(), saved)
    assert again.loader.sampler.cost == Cost(slot=5.0, walk=1.0)


def test_timed_batches_have_the_shapes_and_frames_that_are_asked_for(config):
    source = build_source(config().dataset, "train")
    whole, half = fit.batches_of(source, [(2, 45, 1.0), (1, 20, 0.5)])
    assert (whole.valid_BT.shape, half.valid_BT.shape) == ((2, 45), (1, 20))
    assert (int(whole.valid_BT.sum()), int(half.valid_BT.sum())) == (90, 10)
    assert fit.work_of(half)[:2] == (20, 10)


@pytest.mark.parametrize(
    ("choice", "share"), [("none", 0), ("backbone", 1), ("0.3", 0.3), ("auto", 1), ("offload", 0)]
)
def test_what_is_timed_recomputes_and_offloads_as_what_is_trained(config, choice, share):
    cfg = config(f"model.checkpoint={choice}")
    model = fit.train_apart(cfg, build_source(cfg.dataset, "train"), one_rank()).model
    assert (model.recompute, model.offload) == (share, choice == "offload")


def cost_of_rank(ranks, config, folder):
    """The cost that a rank finds, whose folder is its own."""
    source = build_source(config.dataset, "train")
    with mock.patch.object(fit, "time_batch", by_law):
        return fit.find_cost(config, source, ranks, folder / f"{ranks.rank}.json")


@pytest.mark.dist
@pytest.mark.parametrize(("sees", "expected"), [(0, Cost(slot=5.0, walk=1.0)), (1, TRUE)])
def test_rank_0_decides_whether_a_cost_is_taken_up_again(
    config, tmp_path, two_ranks, sees, expected
):
    (tmp_path / f"{sees}.json").write_text(json.dumps({"slot": 5.0, "walk": 1.0}))
    one, other = two_ranks.run(cost_of_rank, config(*OPTIONS), tmp_path)
    assert one == other
    assert astuple(one) == pytest.approx(astuple(expected), abs=1e-6)

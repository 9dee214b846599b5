"""A cost that is timed: the law behind the times is found, and training reads it."""

from dataclasses import astuple
from unittest import mock

import numpy as np
import pytest

from bload import Cost, InputError
from datasets.build import build_source
from tests.training.jobs import one_rank, overrides
from training.data import open_data
from training.sidings import fitted

TRUE = Cost(slot=2.0, frame=0.1, walk=0.7, launch=3.0)
OPTIONS = ("loader.cost=fitted", "loader.balance=pairs", "train.batch_slots=90")


def by_law(_, batch):
    return float(np.dot(astuple(TRUE), fitted.cost_amounts(batch))) / 1000


def test_the_law_behind_the_times_is_found_and_read_by_training(config, data_root, capsys):
    job = config(*OPTIONS)
    with pytest.raises(InputError, match=r"cost\.json, which is not there; python -m training"):
        open_data(job, one_rank())
    lines = overrides(data_root, job.run.root, *OPTIONS)
    with mock.patch.object(fitted, "time_batch", by_law):
        fitted.main(lines)
    assert "loader.cost=[2.0" in capsys.readouterr().out
    cost = open_data(job, one_rank()).loader.sampler.cost
    assert astuple(cost) == pytest.approx(astuple(TRUE), abs=1e-6)
    with pytest.raises(InputError, match=r"another network: model\.queries was \d+ and is 3; "):
        open_data(config(*OPTIONS, "model.queries=3"), one_rank())


def test_timed_batches_have_the_shapes_and_frames_that_are_asked_for(config):
    source = build_source(config().dataset, "train")
    whole, half = fitted.random_batches(source, [(2, 45, 1.0), (1, 20, 0.5)])
    assert (whole.valid_BT.shape, half.valid_BT.shape) == ((2, 45), (1, 20))
    assert (int(whole.valid_BT.sum()), int(half.valid_BT.sum())) == (90, 10)
    assert fitted.cost_amounts(half)[:2] == (20, 10)

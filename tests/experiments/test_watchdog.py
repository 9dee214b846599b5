"""A rank that waits says for whom."""

import time

import torch.distributed as dist

from experiments.watchdog import Watchdog


def test_a_rank_that_waits_says_where_the_others_are(capsys):
    store = dist.HashStore()
    ranks = [Watchdog(store, rank, 2, patience=patience) for rank, patience in ((0, 0.4), (1, 60))]
    ranks[0].at("epoch 1, step 3")
    ranks[1].at("epoch 1, waiting for batch 3")
    store.set("place/1", '["epoch 1, waiting for batch 3", 7.0]')
    time.sleep(1)
    ranks[0].at("epoch 1, step 4")
    for rank in ranks:
        rank.close()
    said = capsys.readouterr().err
    assert said.count("\n") == 1  # once for a place
    assert "rank 0 is at epoch 1, step 3" in said
    assert "rank 1 is at epoch 1, waiting for batch 3 for 7 s" in said

"""A rank that waits says for whom."""

import re
import socket
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from training.watchdog import Watchdog

from bload.errors import InputError
from training import ranks as joining
from training.ranks import Ranks, start_ranks


def test_a_rank_that_waits_says_where_the_others_are(capsys):
    store = dist.HashStore()
    ranks = [Watchdog(store, rank, 2, patience=patience) for rank, patience in ((0, 0.4), (1, 60))]
    ranks[0].at("epoch 1, step 3")
    ranks[1].at("epoch 1, waiting for step 3")
    store.set("place/1", '["epoch 1, waiting for step 3", 7.0]')
    time.sleep(1)
    ranks[0].at("epoch 1, step 4")
    for rank in ranks:
        rank.close()
    said = capsys.readouterr().err
    assert said.count("\n") == 1  # once for a place
    assert "rank 0 is at epoch 1, step 3" in said
    assert "rank 1 is at epoch 1, waiting for step 3 for 7 s" in said


@pytest.mark.parametrize(
    ("error", "size", "says"),
    [
        (
            "Timed out waiting 20000ms for recv operation",
            2,
            "rank 0 has waited for rank 1 for 20 s",
        ),
        ("wait timed out after 20000ms", 3, "rank 0 has waited for ranks 1, 2 for 20 s"),
        ("DataLoader timed out after 20 seconds", 2, "data for 20 s .*/dev/shm ran out"),
    ],
)
def test_a_time_out_says_who_waited_for_whom(error, size, says):
    ranks = Ranks(0, size, torch.device("cpu"), timeout=20)
    assert re.search(says, ranks.describe(RuntimeError(error)))


def test_a_key_that_nobody_sets_is_a_time_out():
    store = dist.TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=0.2))
    for wait in (store.get, lambda key: store.wait([key])):
        with pytest.raises(dist.DistError) as error:
            wait("place/1")
        assert joining.timed_out(error.value), error.value


def test_a_rank_whose_peer_never_joins_says_so(monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, str(value))
    with socket.create_server(("localhost", 0)) as free:
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    monkeypatch.setattr(joining, "ANSWER", 0.0)
    says = r"rank 0 has waited for rank 1 for 1 s \(train.timeout"
    with pytest.raises(InputError, match=says), start_ranks("cpu", timeout=1):
        pytest.fail("it joined")

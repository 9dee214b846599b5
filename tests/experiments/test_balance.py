"""Over ideal and spread of simulated deals, and where the records go."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bload.dealing import DEALS
from experiments import balance

ONCE = balance.FULL | {"ranks": [2, 4], "blocks": [4], "squares": [1.0]}


@pytest.fixture
def lengths(tmp_path):
    """A file of 600 lengths with a long tail."""
    drawn = np.random.default_rng(0).lognormal(3.0, 1.0, 600).round().clip(1, 300)
    path = tmp_path / "lengths.csv"
    path.write_text("length\n" + "".join(f"{length:.0f}\n" for length in drawn))
    return [str(path)]


def by_deal(rows):
    assert [row["deal"] for row in rows] == [*DEALS]
    return {row["deal"]: row for row in rows}


def test_pairs_are_more_even_than_cards_and_as_random(lengths):
    found = by_deal(balance.run(**ONCE | {"lengths": lengths})["rows"])
    for row in found.values():
        assert min(row["over"]) >= 1
    for pairs, cards in zip(found["pairs"]["over"], found["cards"]["over"], strict=True):
        assert pairs < cards
    assert found["pairs"]["spread"] == pytest.approx(1)
    assert found["window"]["spread"] > 1.5


def test_where_blocks_cost_the_same_there_is_nothing_to_balance(lengths):
    found = by_deal(balance.run(**ONCE | {"lengths": lengths, "squares": [0.0]})["rows"])
    for row in found.values():
        assert row["spread"] == 0
    for name in ("pairs", "counts", "window"):
        assert found[name]["over"] == pytest.approx(found["cards"]["over"])


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ([], "runs/balance/balance.json"),
        (["--quick"], "runs/balance_quick/balance.json"),
        (["--measured"], "runs/balance_measured/balance_measured.json"),
        (["--measured", "--quick"], "runs/balance_measured_quick/balance_measured.json"),
        (["--measured", "--out=here"], "here/balance_measured.json"),
    ],
)
def test_what_is_measured_leaves_what_is_simulated_alone(monkeypatch, tmp_path, options, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["balance.py", *options])
    monkeypatch.setattr(balance, "run", lambda **_: {"rows": []})
    balance.main()
    assert [str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*.json")] == [path]
    assert json.loads(Path(path).read_text())["measured"] == ("--measured" in options)

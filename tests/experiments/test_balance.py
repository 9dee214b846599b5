"""Over ideal and spread of deals, counted."""

import numpy as np

from experiments.balance import counted_table, plans_of


def figures(path, lengths):
    """Of four blocks per rank and step on two ranks: over ideal and spread by deal."""
    path.write_text("length\n" + "".join(f"{length:.0f}\n" for length in lengths))
    rows = [line.split("|") for line in counted_table(plans_of(path), 2).splitlines()[-5:]]
    return {row[2].strip(" `"): (float(row[3]), float(row[4])) for row in rows}


def test_pairs_are_more_even_than_cards_and_as_random(tmp_path):
    drawn = np.random.default_rng(0).lognormal(3.0, 1.0, 600).round().clip(1, 300)
    found = figures(tmp_path / "lengths.csv", drawn)
    assert 1 <= found["pairs"][0] < found["cards"][0]
    assert found["pairs"][1] == found["cards"][1] == 1
    assert found["window"][1] > 1.3


def test_where_blocks_cost_the_same_there_is_nothing_to_balance(tmp_path):
    assert {*figures(tmp_path / "lengths.csv", [30] * 160).values()} == {(1.0, 0.0)}

"""Over ideal and spread of balances, counted for any lengths."""

import numpy as np

from bload import make_plan
from experiments.balance import counted_table


def test_where_blocks_cost_the_same_there_is_nothing_to_balance():
    plan = make_plan(np.full(160, 30), "bload_exact")
    rows = [line.split("|") for line in counted_table({"even": plan}, 2).splitlines()[2:]]
    assert {(float(row[3]), float(row[4])) for row in rows} == {(1.0, 0.0)}

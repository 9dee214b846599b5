"""The figures of an epoch, and how they are printed."""

import pytest

from bload import Plan
from bload.schedule.balance import make_schedule
from training.figures import imbalance
from training.printing import CONSTRAINTS_IN_WORDS, recall_rows


def test_the_fullest_rank_of_each_step_makes_the_imbalance():
    plan = Plan(6, [6, 2, 4, 3], [0, 1, 2, 3], [0] * 4, [6, 2, 4, 3], [0, 1, 2, 3, 4])
    schedule = make_schedule(plan, 2)
    assert imbalance(schedule, skips_padding=False) == 1
    assert imbalance(schedule, skips_padding=True) == pytest.approx((6 + 4) / (4 + 3.5))


def test_every_recall_is_in_the_summary_once_with_the_observers_beside_it():
    figures = {f"{of}/recall@{k}": k / 100 for of in CONSTRAINTS_IN_WORDS for k in (10, 20, 50)}
    for number, of in enumerate(("with", "remembering", "memoryless")):
        figures |= {f"{of}/recall@20": 0.61 + number / 10, f"{of}/recall@20_memory": number / 10}
    rows = recall_rows(figures)
    text = " ".join(value for _, value in rows)
    for number in ("71.00", "81.00"):
        assert text.count(number) == 1
    (_, reached), (_, beside), (_, must), *_ = rows
    assert reached.startswith("61.00 %")
    assert beside == "71.00 % with memory, 81.00 % without"
    assert must == "0.00 %   (ideal observers: 10.00 % with memory, 20.00 % without)"

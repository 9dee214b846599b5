"""The section of the ways to feed ranks, and its lines in the overview."""

import pytest

from tests.experiments.report.made_runs import command, write
from tests.experiments.report.test_tables import OVERVIEW, column, exhibits, said

SPEEDS = {("bload_exact", "computed"): 400, ("bload_exact", "skipped"): 440}
SPEEDS |= {("naive", "computed"): 100, ("naive", "skipped"): 300}
"""Frames per second on one rank; on two there are 1.5 times as many."""


@pytest.fixture
def runs(tmp_path):
    """A folder with the record alone, of three rounds on a machine that changes its speed."""
    rows = []
    for ranks in (1, 2):
        for (loader, padding), speed in SPEEDS.items():
            rates = [(0.5 + ranks / 2) * speed * machine for machine in (1.0, 0.5, 2.0)]
            row = {"loader": loader, "padding": padding, "ranks": ranks, "rates": rates}
            row |= {"padded": 65, "deleted": 0, "imbalance": 1.01, "peak_mib": 300.0}
            rows.append(row | {"static": padding == "computed"})
    write(tmp_path / "alternatives" / "alternatives.json", command("alternatives", rows=rows))
    return tmp_path


def test_a_table_for_each_number_of_ranks_has_ratios_round_by_round(runs):
    tables = exhibits(runs, "alternatives")
    assert [*tables] == ["What else could feed 1 rank", "What else could feed 2 ranks"]
    for ranks, table in enumerate(tables.values(), 1):
        beside = column(table, "beside BLoad exact")
        expected = {"BLoad exact, computed": 1, "BLoad exact, skipped": 1.1}
        expected |= {"naive, computed": 0.25, "naive, skipped": 0.75}
        assert beside == pytest.approx(expected)
        (naive,) = (row for row in table.rows if row["loader"] == "naive, computed")
        figure = naive["beside BLoad exact"].figure
        assert figure.high - figure.low == pytest.approx(0, abs=1e-9)  # the machine cancels out
        speed = column(table, "frames per second")["naive, computed"]
        assert speed == pytest.approx((0.5 + ranks / 2) * 100)
        assert [row["one shape"] for row in table.rows] == ["yes", "no", "yes", "no"]
        assert "in each of 3 rounds" in table.note


def test_the_overview_has_the_ratios_on_most_ranks(runs):
    table = exhibits(runs, "paper")[OVERVIEW]
    for padding, ratio in (("computed", 0.25), ("skipped", 0.75)):
        line = f"Speed on 2 ranks, padding {padding}: ours"
        assert column(table, "naive")[line] == pytest.approx(ratio)
        assert column(table, "mix pad")[line] is None


def test_without_a_record_the_report_says_what_to_run(tmp_path):
    assert "`python -m experiments.alternatives`" in said(tmp_path, "alternatives")
    lines = column(exhibits(tmp_path, "paper")[OVERVIEW], "naive")
    assert not any("beside BLoad exact" in line for line in lines)

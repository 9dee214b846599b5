"""Over ideal and spread of balances, counted for lengths of one's own."""

from experiments.balance import counted_table, plans_of


def test_where_blocks_cost_the_same_there_is_nothing_to_balance(tmp_path):
    file = tmp_path / "lengths.csv"
    file.write_text("length\n" + "30\n" * 160)
    rows = [line.split("|") for line in counted_table(plans_of(file), 2).splitlines()[2:]]
    assert {(float(row[3]), float(row[4])) for row in rows} == {(1.0, 0.0)}

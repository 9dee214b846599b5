"""The tables say what the paper says and what the runs say, in the same units."""

import json
import shutil

import pytest

from experiments.report.collect import collect
from experiments.report.document import Chart, Missing, Table
from experiments.report.write import make_page
from tests.experiments.report.made_runs import make_deadlock, make_run, make_turns


def tables(runs) -> dict[str, Table]:
    return {table.title: table for _, table in make_page(collect(runs)).tables}


def column(table: Table, name: str) -> dict[str, float | None]:
    at = table.columns.index(name)
    return {row[0].text: row[at].value for row in table.rows}


@pytest.fixture(scope="module")
def overview(made):
    return tables(made)["The paper's one table, with ours"]


def test_packing_is_the_papers_except_for_its_underivable_figure(overview):
    for loader in ("naive", "sampling", "mix pad"):
        found = column(overview, loader)
        for what in ("Padded frames", "Deleted frames", "Frames processed"):
            assert found[f"{what}: ours"] == found[f"{what}: paper"]
            assert found[f"{what}: ours - paper"] == 0
    bload = column(overview, "BLoad")
    assert bload["Padded frames: paper"] == 3695
    assert 4500 < bload["Padded frames: ours"] < 5300
    assert bload["Frames processed: paper"] == 170_480
    assert column(overview, "BLoad exact")["Padded frames: ours"] == 65
    assert "cannot be derived" in overview.note


def test_times_are_ratios_to_naive(overview):
    bload = column(overview, "BLoad")
    assert bload["Times faster than naive: paper"] == pytest.approx(170 / 41)
    assert bload["Times faster than naive: ours"] == pytest.approx(4.1, abs=0.1)
    ratio = bload["Times faster than naive: ours"] / (170 / 41)
    assert bload["Times faster than naive: ours / paper"] == pytest.approx(ratio)
    assert "divided by 4.205" in overview.note


def test_recall_stands_beside_the_papers_in_points(overview):
    bload = column(overview, "BLoad")
    ours = bload["Recall@20, equal epochs: ours"]
    assert bload["Recall@20, %: paper"] == 43.3
    assert bload["Recall@20, equal epochs: ours - paper"] == pytest.approx(ours - 43.3)
    row = next(r for r in overview.rows if r[0].text == "Recall@20, equal epochs: ours")
    assert row[4].count == 3
    assert row[4].low < row[4].value < row[4].high


def test_differences_are_to_the_runs_of_sampling_and_of_naive(made):
    table = tables(made)["Recall@20 at equal epochs"]
    recall = column(table, "with constraint, %")
    memory = column(table, "must be remembered, %")
    for loader in ("sampling", "naive"):
        minus = column(table, f"minus {loader}, points")
        assert minus[f"{loader}, 5 epochs"] is None
        assert minus["BLoad, 5 epochs"] == pytest.approx(
            recall["BLoad, 5 epochs"] - recall[f"{loader}, 5 epochs"]
        )
    assert column(table, "of these, minus sampling")["BLoad, 5 epochs"] == pytest.approx(
        memory["BLoad, 5 epochs"] - memory["sampling, 5 epochs"]
    )


def test_at_equal_work_epochs_differ_by_loader_and_extra_budgets_stand_apart(copied):
    for seed in (0, 1):
        make_run(
            copied / "paper_table_equal_time",
            "naive",
            seed,
            recall=0.9,
            train__epochs=2,
            train__slots=172_000,
        )
    found = tables(copied)
    rows = [row[0].text for row in found["Recall@20 at equal work"].rows]
    assert rows[:3] == ["naive, 1 epoch", "naive, 2 epochs", "sampling, 12 epochs"]
    naive = column(found["The paper's one table, with ours"], "naive")
    assert naive["Recall@20, equal work: ours"] < 70


def test_loaders_without_runs_at_equal_work_have_those_of_as_many_epochs(copied):
    """BLoad exact, 22,360 slots an epoch: 5 epochs are the nearest to 116,360 slots."""
    found = tables(copied)["Recall@20 at equal work"]
    rows = {row[0].text: row for row in found.rows}
    epochs = {row[0].text: row for row in tables(copied)["Recall@20 at equal epochs"].rows}
    assert rows["BLoad exact, 5 epochs"][2] == epochs["BLoad exact, 5 epochs"][2]
    assert "Of BLoad exact that is the number of epochs in `paper_table`" in found.note


def test_runs_of_another_number_of_epochs_do_not_stand_in(copied):
    for place in (copied / "paper_table_equal_time").glob("sampling-*"):
        shutil.rmtree(place)
    found = tables(copied)["Recall@20 at equal work"]
    assert not any(row[0].text.startswith("sampling") for row in found.rows)


def test_runs_of_another_setting_do_not_stand_in(copied):
    shutil.rmtree(copied / "paper_table")
    make_run(copied / "paper_table", "bload_exact", 0, dataset__train_videos=200)
    found = tables(copied)["Recall@20 at equal work"]
    assert not any(row[0].text.startswith("BLoad exact") for row in found.rows)


def test_failed_runs_are_told_where_the_others_are_averaged(tmp_path):
    """A loader all of whose runs failed has a row that says why; one that lost a seed tells."""
    runs = tmp_path / "paper_table"
    places = [make_run(runs, loader, seed) for loader in ("sampling", "mix") for seed in (0, 1)]
    for place in places[1:]:  # a seed of sampling, and all of mix
        (place / "summary.json").unlink()
        (place / "error.json").write_text('{"error": "the gradient is nan"}')
    found = tables(tmp_path)
    rows = {row[0].text: row for row in found["Recall@20 at equal epochs"].rows}
    assert rows["sampling, 5 epochs"][2].text == "1 (1 failed)"
    assert rows["mix pad"][1].text == "failed: the gradient is nan"
    overview = found["The paper's one table, with ours"]
    at = overview.columns.index("mix pad")
    ours = next(row for row in overview.rows if row[0].text == "Recall@20, equal epochs: ours")
    assert ours[at].text == "failed"


def test_runs_of_one_loader_with_other_options_stand_apart(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / "paper_table", "bload", seed, recall=0.6)
        make_run(tmp_path / "paper_table", "bload", seed, recall=0.3, loader__t_max=43)
    rows = {row[0].text: row for row in tables(tmp_path)["Recall@20 at equal epochs"].rows}
    assert rows["BLoad, 5 epochs"][3].value == pytest.approx(60)
    assert rows["BLoad t_max=43, 5 epochs"][3].value == pytest.approx(30)


def test_at_equal_time_stands_what_was_reached_when_the_first_loader_was_done(made):
    """Naive's one epoch is the shortest training; BLoad has done three of five by then."""
    found = tables(made)["Recall@20 at equal training time"]
    epochs = column(found, "epochs until then")
    assert epochs["naive"] == 1
    assert epochs["BLoad"] == 3
    final = column(tables(made)["Recall@20 at equal work"], "with constraint, %")
    assert column(found, "with constraint, %")["BLoad"] < final["BLoad, 5 epochs"]


def test_loaders_that_took_turns_have_the_times_of_the_table(tmp_path):
    make_turns(tmp_path / "epoch_turns", faster=4.1)
    found = tables(tmp_path)
    table = found["Time of an epoch, loaders taking turns"]
    assert column(table, "times faster than naive")["BLoad exact"] == pytest.approx(4.1, rel=0.01)
    overview = column(found["The paper's one table, with ours"], "BLoad exact")
    assert overview["Times faster than naive: ours"] == pytest.approx(4.1, rel=0.01)


def test_ablations_compare_to_their_baseline(made):
    table = tables(made)["Where states are cleared"]
    assert [row[0].text for row in table.rows] == ["table", "ignored", "wrong"]
    against = column(table, "minus table, points")
    assert against["table"] is None
    assert against["ignored"] == pytest.approx(-2.5)
    by_seed = table.rows[1][table.columns.index("the same by seed")]
    assert [by_seed.value, by_seed.low, by_seed.high] == pytest.approx([-2.5] * 3)
    welch = table.rows[1][table.columns.index("minus table, points")]
    assert welch.high - welch.low > 1


def test_t_max_shows_the_bound_of_its_frames(made):
    table = tables(made)["Runs by T_max"]
    row = next(r for r in table.rows if (r[0].text, r[1].value) == ("BLoad exact", 86))
    least = dict(zip(table.columns, row, strict=True))
    assert least["fewest"].value == -(-22_342 // 86)
    assert least["at least"].value == -(-22_342 // 86) * 86 - 22_342
    charts = [
        block
        for section in make_page(collect(made)).sections
        for block in section.blocks
        if isinstance(block, Chart) and block.title == "Padding against T_max, in runs"
    ]
    padded = least["padded"].text
    assert f"BLoad exact at T_max 86 pads {padded}" in charts[0].alternative


def test_the_full_model_has_its_own_table_of_times(copied):
    for loader in ("naive", "bload"):
        make_run(copied / "full_size", loader, model__name="dds")
    found = tables(copied)["Time of an epoch with model=dds"]
    rate = column(found, "frames a second")
    assert rate["BLoad"] / rate["naive"] == pytest.approx(3.7, abs=0.1)
    assert column(found, "peak memory, MiB") == {"naive": 1234, "BLoad": 1234}
    assert "model dds" in found.note


def test_sequences_that_are_split_stay_out_of_the_curve_of_whole_ones(made):
    charts = {
        block.title: block
        for section in make_page(collect(made)).sections
        for block in section.blocks
        if isinstance(block, Chart)
    }
    said = charts["Padding against the longest sequence"].alternative
    assert "BLoad 1.0 up to 1,000, 1.0 up to 10,000" in said
    rows = tables(made)["Every measurement"].rows
    assert [row[2].value for row in rows if row[1].text == "BLoad"][-1] == 1_000


def test_what_did_not_end_as_expected_is_marked(tmp_path):
    make_deadlock(tmp_path / "deadlock", plain="finished")
    ended = [row[2].text for row in tables(tmp_path)["Two ranks on videos of uneven length"].rows]
    assert ended[:2] == ["finished, not as expected", "finished, as expected"]


def test_the_curve_of_work_ends_at_the_slots_that_were_processed(made):
    table = tables(made)["Recall@20 against work, at equal work"]
    at = table.columns.index("thousand slots")
    rows = [row for row in table.rows if row[0].text == "sampling"]
    assert len(rows) == 12
    (run, *_) = sorted((made / "paper_table_equal_time").glob("sampling-*-s0-*/summary.json"))
    slots = json.loads(run.read_text())["processed"]
    assert [row[at].value for row in rows] == pytest.approx(
        [slots * n / 1000 for n in range(1, 13)]
    )


def test_a_loader_that_was_not_evaluated_on_the_way_has_no_curve(tmp_path):
    for loader in ("sampling", "bload"):
        run = make_run(tmp_path / "paper_table", loader)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"kind": "eval"' not in line]
    (run / "metrics.jsonl").write_text("\n".join(kept))
    found = tables(tmp_path)
    assert {row[0].text for row in found["Recall@20 against epochs"].rows} == {"sampling"}
    assert "BLoad, 5 epochs" in {row[0].text for row in found["Recall@20 at equal epochs"].rows}


def test_what_is_missing_names_its_command(tmp_path):
    page = make_page(collect(tmp_path))
    commands = {
        block.command
        for section in page.sections
        for block in section.blocks
        if isinstance(block, Missing)
    }
    assert commands == {
        f"python train.py{many} experiment={name}"
        for many, names in (
            (
                " -m",
                "paper_table paper_table_equal_time epoch_time full_size tmax_sweep "
                "reset_ablation padding_ablation temporal",
            ),
            ("", "deadlock length_variance"),
        )
        for name in names.split()
    }


def test_runs_of_no_experiment_make_the_table_if_they_compare_loaders(tmp_path):
    make_run(tmp_path, "naive")
    make_run(tmp_path, "bload", recall=0.5)
    overview = tables(tmp_path)["The paper's one table, with ours"]
    assert column(overview, "BLoad")["Recall@20, equal epochs: ours"] == pytest.approx(50)


def test_real_data_without_observers_has_no_memory_chart(tmp_path):
    for loader in ("sampling", "bload"):
        make_run(tmp_path / "paper_table", loader, memory=False)
    titles = [
        block.title
        for section in make_page(collect(tmp_path)).sections
        for block in section.blocks
        if isinstance(block, Chart)
    ]
    assert "Recall@20 against training time" in titles
    assert "Recall@20 on what must be remembered" not in titles

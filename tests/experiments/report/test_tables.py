"""The tables say what the paper says and what the runs say, in the same units."""

import json
import math
import shutil
from dataclasses import asdict

import pytest

from bload.errors import InputError
from experiments.report import charts
from experiments.report.exhibits import Exhibit
from experiments.report.page import SECTIONS
from experiments.report.plots import block_sizes
from experiments.report.relations import MOST, relations
from experiments.report.results import compare, equal_epochs, read_results
from models import build_model
from models.config import ModelConfig
from tests.experiments.report.made_runs import (
    command,
    make_record,
    make_relations,
    make_run,
    write,
)
from tests.training.jobs import compose_config

OVERVIEW, WITH = "The paper's one table, with ours", "with constraint, %"
EPOCHS, WORK = "Recall@20 at equal epochs", "Recall@20 at equal work"


def blocks(runs, *anchors: str) -> list:
    """The contents of these sections of the report, of all if none is named."""
    results = read_results(runs)
    made = [SECTIONS[anchor][1](results) for anchor in anchors or SECTIONS]
    return [block for section in made for block in section]


def exhibits(runs, *anchors: str) -> dict[str, Exhibit]:
    return {one.title: one for one in blocks(runs, *anchors) if isinstance(one, Exhibit)}


def said(runs, *anchors: str) -> str:
    return " ".join(one for one in blocks(runs, *anchors) if isinstance(one, str))


def column(table: Exhibit, heading: str) -> dict[str, float | None]:
    cells = ((next(iter(row.values())), row[heading].figure) for row in table.rows)
    return {name: figure and figure.mean for name, figure in cells}


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_drawn():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "plain_svg", lambda *_: "<svg/>")
        yield


@pytest.fixture(scope="module")
def found(made, _nothing_is_drawn):
    return exhibits(made)


def test_the_overview_has_the_papers_figures_beside_ours(made, found):
    naive, bload, exact = (column(found[OVERVIEW], of) for of in ("naive", "BLoad", "BLoad exact"))
    assert naive["Padded frames: ours"] == naive["Padded frames: paper"] == 534_831
    assert bload["Padded frames: paper"] == 3695
    assert 4500 < bload["Padded frames: ours"] < 5300
    assert bload["Frames processed: paper"] == 170_480
    assert exact["Padded frames: ours"] == 65
    times = [bload[f"Times faster than naive: {of}"] for of in ("paper", "ours", "ours / paper")]
    assert times == pytest.approx([170 / 41, 4.1, 4.1 * 41 / 170], rel=0.01)
    assert "4.205" in found[OVERVIEW].note
    runs = (made / "paper_table").glob("bload-*/summary.json")
    values = [100 * json.loads(path.read_text())["with/recall@20"] for path in runs]
    assert bload["Recall@20, equal epochs: ours, synthetic data"] == pytest.approx(
        math.fsum(values) / 3
    )


def test_differences_are_to_the_runs_of_sampling_and_of_naive(found):
    for base, heading, of in (
        *(("sampling", "minus sampling, points", WITH), ("naive", "minus naive, points", WITH)),
        ("sampling", "of these, minus sampling", "must be remembered, %"),
    ):
        recall, minus = column(found[EPOCHS], of), column(found[EPOCHS], heading)
        assert minus[f"{base}, 5 epochs"] is None
        between = recall["BLoad, 5 epochs"] - recall[f"{base}, 5 epochs"]
        assert minus["BLoad, 5 epochs"] == pytest.approx(between)


def test_at_equal_work_epochs_differ_and_extra_budgets_stand_apart(copied):
    for seed in (0, 1):
        options = {"train__epochs": 2, "train__slots": 172_000, "recall": 0.9}
        make_run(copied / "paper_table_equal_time", "naive", seed, **options)
    tables = exhibits(copied, "paper", "details")
    rows = [*column(tables[WORK], "seeds")]
    assert rows[:3] == ["naive, 1 epoch", "naive, 2 epochs", "sampling, 12 epochs"]
    assert "172,000" in tables[WORK].note
    assert column(tables[OVERVIEW], "naive")["Recall@20, equal work: ours, synthetic data"] < 70


def test_runs_at_equal_epochs_stand_in_if_they_are_as_many_and_of_one_setting(copied):
    """BLoad exact, 22,360 slots per epoch: 5 epochs are the nearest to 116,360 slots."""
    for place in (copied / "paper_table_equal_time").glob("sampling-*"):
        shutil.rmtree(place)
    tables = exhibits(copied, "details")
    work, epochs = column(tables[WORK], WITH), column(tables[EPOCHS], WITH)
    assert work["BLoad exact, 5 epochs"] == epochs["BLoad exact, 5 epochs"]
    assert "sampling, 5 epochs" in epochs.keys() - work.keys()
    shutil.rmtree(copied / "paper_table")
    make_run(copied / "paper_table", "bload_exact", 0, dataset__train_videos=200)
    assert "BLoad exact, 5 epochs" not in column(exhibits(copied, "details")[WORK], WITH)


def test_only_runs_of_one_setting_are_averaged_and_each_counts_once(tmp_path):
    for seed in (0, 1):
        for loader in ("bload", "naive"):
            run = make_run(tmp_path / "paper_table", loader, seed, recall=0.6)
        make_run(tmp_path / "paper_table", "bload", seed, recall=0.3, loader__t_max=43)
    shutil.copytree(run, run.with_name("zz-copy"))
    make_run(tmp_path / "paper_table", "bload", 2, train__epochs=9)
    make_run(tmp_path / "paper_table", "bload", 3, dataset__train_videos=50)
    options = {"train__workers": 7, "dataset__root": "elsewhere", "model__checkpoint": "auto"}
    make_run(tmp_path / "paper_table", "bload", 4, recall=0.6, **options)
    chosen = compare(read_results(tmp_path), "paper_table", "loader")
    assert len(chosen.runs) == 7
    names = [[name[:7] for name in of] for of in chosen.others.values()]
    unlike = ["dataset.train_videos 50", "train.epochs 9", "the same again"]
    assert dict(zip(chosen.others, names, strict=True)).keys() == {*unlike}
    assert chosen.others["the same again"] == ["zz-copy"]
    (nine,) = chosen.others["train.epochs 9"]
    note = exhibits(tmp_path, "details")[EPOCHS].note
    assert "3 runs stand apart, for other settings than most here: " in note
    assert f"`{nine}` (train.epochs 9)" in note
    recall = column(exhibits(tmp_path, "details")[EPOCHS], WITH)
    assert recall["BLoad, 5 epochs"] == pytest.approx(60)
    assert recall["BLoad t_max=43, 5 epochs"] == pytest.approx(30)


def test_runs_of_no_experiment_are_compared_and_quick_forms_stand_in(tmp_path):
    make_run(tmp_path, "naive")
    make_run(tmp_path, "bload", recall=0.5)
    assert column(exhibits(tmp_path, "details")[EPOCHS], WITH)["BLoad, 5 epochs"] == 50
    for name in ("paper_table_quick", "paper_table"):
        make_run(tmp_path / name, "bload")
        assert equal_epochs(read_results(tmp_path)).experiment == name


def test_ablations_compare_to_their_baseline_by_groups_and_by_seed(found):
    table = found["Where states are cleared"]
    assert [*column(table, "seeds")] == ["table", "ignored", "wrong"]
    groups, seeds = (table.rows[1][of].figure for of in ("minus table, points", "the same by seed"))
    assert [seeds.mean, seeds.low, seeds.high] == pytest.approx([-2.5] * 3)
    assert groups.mean == pytest.approx(-2.5)
    assert groups.high - groups.low > 1


def test_t_max_shows_the_bound_of_its_frames(found):
    rows = found["Padding and Recall@20 against T_max"].rows
    (row,) = (one for one in rows if (one["loader"], one["T_max"]) == ("BLoad exact", "86"))
    fewest = -(-22_342 // 86)
    figures = [row[of].figure.mean for of in ("fewest", "at least", "padded")]
    assert figures == [fewest, fewest * 86 - 22_342, 93]


def test_block_sizes_are_compared_with_the_middle_one_by_seed(tmp_path):
    for seed, noise in enumerate((0.0, 0.01, -0.01)):
        for t_max, recall in ((32, 0.63), (86, 0.6), (258, 0.6 - noise)):
            costs = (t_max, 100, 0)
            share = recall + noise + 0.001 * seed * (t_max == 32)
            options = {"recall": share, "costs": costs, "loader__t_max": t_max}
            make_run(tmp_path / "tmax_sweep", "bload_exact", seed, **options)
    (table,) = block_sizes(read_results(tmp_path))
    less = [row["less T_max 86, points"] for row in table.rows]
    assert [row["T_max"] for row in table.rows] == ["32", "86", "258"]
    assert less[0].figure.mean == pytest.approx(3.1)  # what all sizes share drops out
    assert less[0].figure.high - less[0].figure.low < 0.6
    assert less[1] == "-"
    # Student's t of two degrees is 4.303: a standard error of 1 / sqrt(3) points
    assert [row["so"] for row in table.rows] == ["apart", "-", "equal within 2.5"]


def test_savings_stand_beside_the_variation_and_the_closed_form(found):
    savings, every = found["What packing saves"], found["Every loader on these lengths"]
    assert "speech 60 at 0.30; speech, cut 20 at 0.30." in savings.alternative
    assert column(savings, "T_max / mean") == {"speech": 3, "speech, cut": 2}
    assert column(savings, "times fewer: BLoad") == {"speech": 2.5, "speech, cut": 1.25}
    assert column(savings, "imbalance: one by one") == pytest.approx(
        {"speech": 1.1, "speech, cut": 1.1}
    )
    rows = {(row["lengths"], row["loader"]): row for row in every.rows}
    assert len(rows) == 18
    mix, naive = rows["speech", "mix pad"], rows["speech", "naive"]
    assert (mix["deleted, %"], mix["padded per frame kept"]) == ("10.0", "0.2000")
    assert (naive["deleted"], naive["times fewer slots"]) == ("0", "1.00 [1.00, 1.00]")


def test_curves_are_of_what_was_evaluated_by_the_work_done(made, found, tmp_path):
    rows = found["Recall@20 against work, at equal work"].rows
    slots = [row["thousand slots"].figure.mean for row in rows if row["loader"] == "sampling"]
    (run, *_) = (made / "paper_table_equal_time").glob("sampling-s0-*/summary.json")
    each = json.loads(run.read_text())["processed"] / 1000
    assert slots == pytest.approx([each * epochs for epochs in range(1, 13)])
    for loader in ("sampling", "bload"):
        run = make_run(tmp_path / "paper_table", loader, memory=False)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join(line for line in lines if "eval" not in line))
    curves = exhibits(tmp_path, "story", "curves")
    losses = column(found["Recall@20 against epochs"], "loss")
    assert losses == pytest.approx(dict.fromkeys(losses, 60 / 5))
    assert "BLoad 60 at 1 to 12 at 5." in curves["Loss against epochs"].alternative
    assert {row["loader"] for row in curves["Recall@20 against epochs"].rows} == {"sampling"}
    assert "Recall@20 on what must be remembered" in found.keys() - curves.keys()


def test_the_ratio_of_times_is_that_of_loaders_taking_turns_alone(found, copied):
    """Runs one after another may be faster than the slots allow."""
    assert not [title for title in found if title.startswith("Time of an epoch with")]
    shutil.rmtree(copied / "epoch_turns")
    assert "Time of an epoch with model=dds_tiny" in exhibits(copied, "details")


def test_seconds_that_hold_the_start_of_data_workers_are_shown_nowhere(found, tmp_path):
    seconds, chart = "training seconds", "Recall@20 against training time"
    tables = "Recall@20 against epochs", EPOCHS
    assert chart not in found
    assert not [of for of in tables if seconds in found[of].rows[0]]
    summary = make_run(tmp_path / "paper_table", "bload") / "summary.json"
    write(summary, json.loads(summary.read_text()) | {"start_seconds": 4.0})
    apart = exhibits(tmp_path, "story", "curves", "details")
    assert chart in apart
    assert all(seconds in apart[of].rows[0] for of in tables)


def test_relations_of_many_runs_are_on_their_own_pages(tmp_path):
    for run in range(MOST + 1):
        (tmp_path / f"{run}").mkdir()
        make_relations(tmp_path / f"{run}")
        shown = relations(read_results(tmp_path))
        assert len(shown) == (1 if run == MOST else run + 1)
    assert f"of {MOST + 1} runs: on the page of each" in str(shown)


def test_relations_have_no_bars_where_none_is_learned(copied):
    path = copied / "paper_table" / "relations.csv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *(f"{line.rpartition(',')[0]},0.01" for line in lines)]))
    table = exhibits(copied, "relations")["Recall@20 by relation: paper_table"]
    assert (table.svg, len(table.rows)) == ("", 4)
    assert "below 3 %: all 4 relations. " in table.note


def test_recall_by_relation_names_the_low_ones_and_refuses_other_files(found, tmp_path):
    table = found["Recall@20 by relation: paper_table"]
    assert column(table, "with constraint, %") == pytest.approx(
        {"looking at": 90, "above": 60, "holding": 80, "lying on": 2}
    )
    assert column(table, "no constraint, %")["lying on"] == pytest.approx(2.2)
    assert "below 3 %: 1 of 4 relations; 0 of 1 attention, 0 of 1 spatial, 1 of 2" in table.note
    assert "contacting (lying on)." in table.note
    assert "relations=relations.csv" in said(tmp_path, "relations")
    (tmp_path / "relations.csv").write_text("a,b\n1,2")
    with pytest.raises(InputError, match=r"relations\.csv is not of eval\.py"):
        read_results(tmp_path)


def test_settings_are_those_that_runs_share_and_those_that_differ(found, tmp_path):
    by = {row["experiment"]: [*row.values()][2:] for row in found["By experiment"].rows}
    assert by["reset_ablation"][0] == "train.seed 0, 1, 2; train.starts table, wrong, ignored"
    assert by["epoch_time"][0] == "loader.name bload, naive"
    (common,) = (one for title, one in found.items() if title.startswith("The most common value"))
    assert {row["key"]: row["value"] for row in common.rows}["train.lr"] == "0.0015"
    config = asdict(compose_config("train", ["model=dds_tiny", "model.temporal=none"]).model)
    make_run(tmp_path, "bload", **{f"model__{key}": value for key, value in config.items()})
    (row,) = exhibits(tmp_path, "settings")["Networks"].rows
    network = build_model(ModelConfig(**config))
    assert row["parameters"].figure.mean == sum(one.numel() for one in network.parameters())
    assert row["temporal part"] == "none"


def test_what_is_missing_is_named_with_its_command(tmp_path):
    text = said(tmp_path)
    for name in ["deadlock", "length_variance", "epoch_time"]:
        assert f"`python -m experiments.{name}`" in text
    names = "paper_table paper_table_equal_time full_size tmax_sweep reset_ablation"
    for name in f"{names} padding_ablation temporal".split():
        assert f"`python train.py -m experiment={name}`" in text


def test_every_command_is_listed_with_what_it_trained_and_where(tmp_path):
    folder = tmp_path / "my runs" / "epoch_time"
    naive, mix = (make_run(folder, loader).name for loader in ("naive", "mix"))
    make_record(folder, sweeps=[command("epoch_time", naive, mix)])
    tables, text = exhibits(folder.parent, "origin"), said(folder.parent, "origin")
    assert [*tables["Commands"].rows[0].values()] == [
        *("epoch_time", "`python train.py -m experiment=epoch_time`", "2026-11-21 09:00"),
        *("2026-11-21 10:30", "2", "1", "0123456789ab", "cpu Made CPU, cores 2"),
    ]
    assert "Versions: python 3.11.2." in text
    assert f"`python -m experiments.report '{folder.parent}'`" in text


def test_a_run_of_before_a_key_compares_with_one_that_has_its_default(tmp_path):
    key = "evals_per_epoch"
    has: dict[str, dict] = {"naive": {}, "bload": {key: 0}, "mix": {key: 4}}
    for loader, train in has.items():
        file = make_run(tmp_path / "paper_table", loader) / "config.json"
        config = json.loads(file.read_text())
        config["train"].pop(key, None)
        write(file, config | {"train": config["train"] | train})
    chosen = compare(read_results(tmp_path), "paper_table", "loader")
    assert {*chosen.by_loader} == {"naive", "bload"}

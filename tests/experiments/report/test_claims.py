"""Verdicts follow the figures: each claim is reproduced, not reproduced and not tested in turn."""

import shutil

import pytest

from experiments.report.claims import NOT_REPRODUCED as NO
from experiments.report.claims import NOT_TESTED, UNDECIDED, claims
from experiments.report.claims import REPRODUCED as YES
from experiments.report.results import read_results
from tests.experiments.report.made_runs import make_deadlock, make_run, make_turns

NAMES = ("padding", "deleted", "faster", "paper_table", "paper_table_equal_time")
NAMES += ("reset_ablation", "deadlock")


def judged(runs, name):
    """The verdict on a claim, and the figures behind it."""
    _, verdict, figures, _ = claims(read_results(runs)).rows[NAMES.index(name)].values()
    return verdict, figures


def test_an_empty_folder_tests_what_lengths_say_alone(tmp_path):
    verdicts = [row["verdict"] for row in claims(read_results(tmp_path)).rows]
    assert verdicts == [YES, YES, *[NOT_TESTED] * 5]
    assert "534,831" in judged(tmp_path, "padding")[1]


@pytest.mark.parametrize("name", NAMES[3:5])
def test_recall_is_reproduced_only_where_the_whole_interval_is_above_zero(tmp_path, name):
    for sampling, bload, verdict in (
        ((0.50, 0.51), (0.60, 0.61), YES),
        ((0.60, 0.61), (0.50, 0.51), NO),
        ((0.50, 0.60), (0.52, 0.62), NO),  # the interval holds 0: so the plan says
        ((0.50,), (0.60,), NOT_TESTED),
    ):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
        for loader, recalls in (("sampling", sampling), ("bload", bload)):
            for seed, recall in enumerate(recalls):
                make_run(tmp_path / name, loader, seed, recall=recall)
        found, figures = judged(tmp_path, name)
        assert found == verdict
        assert f"{len(bload)} and {len(sampling)} seeds" in figures
    make_run(tmp_path / name, "sampling", 1, recall=0.51)
    make_run(tmp_path / name, "bload", 1, recall=0.61)
    assert judged(tmp_path, name)[0] == YES
    (tmp_path / name).rename(tmp_path / f"{name}_quick")
    assert judged(tmp_path, name)[0] == NOT_TESTED


def test_a_speed_up_counts_on_the_papers_lengths_alone_and_with_an_interval(tmp_path):
    """The bar is 95 % of 169.5 / 41.5, which is 3.88; two runs differ by a percent."""
    full = 166_785
    for faster, frames, seeds, verdict in (
        *((4.12, full, (0, 1), YES), (3.9, full, (0, 1), UNDECIDED), (3.5, full, (0, 1), NO)),
        *((4.12, 22_342, (0, 1), NOT_TESTED), (4.12, full, (0,), NOT_TESTED)),
    ):
        shutil.rmtree(tmp_path / "epoch_time", ignore_errors=True)
        for loader, seconds in (("naive", 1000.0), ("bload", 1000 / faster)):
            for seed in seeds:
                make_run(tmp_path / "epoch_time", loader, seed, frames=frames, seconds=seconds)
        found, figures = judged(tmp_path, "faster")
        assert found == verdict
        assert f"{faster:.1f}" in figures
    for faster, noise, verdict in ((4.1, 0.01, YES), (3.5, 0.01, NO), (4.1, 0.5, UNDECIDED)):
        make_turns(tmp_path / "epoch_turns", faster, noise)
        assert judged(tmp_path, "faster")[0] == verdict


def test_deadlock_needs_plain_ddp_to_hang_and_blocks_to_end(tmp_path):
    for plain, packed, verdict in (
        *(("timed out", "finished", YES), ("finished", "finished", NO)),
        ("timed out", "timed out", NO),
    ):
        make_deadlock(tmp_path / "deadlock", plain, packed)
        assert judged(tmp_path, "deadlock")[0] == verdict
    shutil.rmtree(tmp_path / "deadlock")
    make_deadlock(tmp_path / "deadlock_quick")
    assert judged(tmp_path, "deadlock")[0] == NOT_TESTED


def test_starts_matter_only_if_ignoring_them_costs_by_seed(tmp_path):
    for table, ignored, verdict in (
        ({0: 0.60, 1: 0.61}, {0: 0.55, 1: 0.56}, YES),
        ({0: 0.60, 1: 0.60}, {0: 0.60, 1: 0.60}, NO),
        ({0: 0.60, 1: 0.61}, {2: 0.55, 3: 0.56}, NOT_TESTED),
        ({0: 0.60, 1: 0.61}, {0: 0.61, 1: 0.59}, UNDECIDED),
        ({0: 0.60, 1: 0.61}, {0: 0.70, 1: 0.71}, NO),
        # Seeds that differ by more than what the table is worth: pairs show it, groups do not.
        ({0: 0.50, 1: 0.60}, {0: 0.49, 1: 0.589}, YES),
    ):
        folder = tmp_path / "reset_ablation"
        shutil.rmtree(folder, ignore_errors=True)
        for starts, recalls in (("table", table), ("ignored", ignored)):
            for seed, recall in recalls.items():
                make_run(folder, "bload", seed, recall=recall, train__starts=starts)
        assert judged(tmp_path, "reset_ablation")[0] == verdict


def test_a_deleted_frame_in_a_run_of_bload_is_reported_unless_it_was_asked_for(tmp_path):
    make_run(tmp_path, "bload", costs=(94, 900, 7), loader__long="truncate")
    assert judged(tmp_path, "deleted")[0] == YES
    run = make_run(tmp_path, "bload", costs=(94, 900, 7))
    verdict, figures = judged(tmp_path, "deleted")
    assert (verdict, run.name in figures) == (NO, True)

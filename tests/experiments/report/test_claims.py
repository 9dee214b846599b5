"""Verdicts follow the figures, as planned before there were any."""

import itertools
import shutil

import pytest

from experiments.report.claims import NEAR, NOT_TESTED, UNDECIDED, claims
from experiments.report.claims import NOT_REPRODUCED as NO
from experiments.report.claims import REPRODUCED as YES
from experiments.report.page import write_report
from experiments.report.results import read_results
from tests.experiments.report.made_runs import make_deadlock, make_run, make_turns

NAMES = ("padding", "deleted", "faster", "paper_table", "paper_table_equal_time")
NAMES += ("start_table", "deadlock")


def judged(runs, name):
    """The verdict on a claim, and the figures behind it."""
    _, verdict, figures, _ = claims(read_results(runs)).rows[NAMES.index(name)].values()
    return verdict, figures


def test_an_empty_folder_claims_nothing_and_a_small_run_little(tmp_path):
    def verdicts():
        return [row["verdict"] for row in claims(read_results(tmp_path)).rows]

    assert verdicts() == [NOT_TESTED] * 7
    assert "of the claims, 7 are not tested" in write_report(tmp_path).html.read_text()
    make_run(tmp_path, "naive")
    assert verdicts() == [NOT_TESTED] * 7
    make_run(tmp_path, "bload")
    assert verdicts() == [NOT_TESTED] * 7


def test_padding_is_judged_beside_epochs_on_the_papers_lengths(tmp_path):
    make_turns(tmp_path / "epoch_turns", 4.1)
    verdict, figures = judged(tmp_path, "padding")
    assert (verdict, "534,831" in figures) == (YES, True)


@pytest.mark.parametrize(("name", "within"), [(NAMES[3], NO), (NAMES[4], UNDECIDED)])
def test_recall_is_reproduced_only_where_the_whole_interval_is_above_zero(tmp_path, name, within):
    """With 0 inside, the plan for equal epochs says no; there was none for equal work."""
    for sampling, bload, verdict in (
        ((0.50, 0.51), (0.60, 0.61), YES),
        ((0.60, 0.61), (0.50, 0.51), NO),
        ((0.50, 0.60), (0.52, 0.62), within),
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
    """The paper's is 170 / 41, 4.15, and 95 % of it 3.94; two runs differ by a percent."""
    full = 166_785
    for faster, frames, seeds, verdict in (
        *((4.6, full, (0, 1), YES), (3.9, full, (0, 1), UNDECIDED), (3.5, full, (0, 1), NO)),
        *((4.12, 22_342, (0, 1), NOT_TESTED), (4.12, full, (0,), NOT_TESTED)),
    ):
        shutil.rmtree(tmp_path / "epoch_time", ignore_errors=True)
        for loader, seconds in (("naive", 1000.0), ("bload", 1000 / faster)):
            for seed in seeds:
                make_run(tmp_path / "epoch_time", loader, seed, frames=frames, seconds=seconds)
        found, figures = judged(tmp_path, "faster")
        assert found == verdict
        assert f"{faster:.1f}" in figures
    for faster, noise, verdict in (
        *((4.3, 0.01, YES), (4.0, 0.01, NEAR), (4.146, 0.01, NEAR)),
        *((3.5, 0.01, NO), (4.1, 0.5, UNDECIDED)),
    ):
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


def test_starts_matter_only_if_groups_say_so_and_pairs_are_post_hoc(tmp_path):
    for table, ignored, verdict in (
        ({0: 0.60, 1: 0.61}, {0: 0.55, 1: 0.56}, YES),
        ({0: 0.60, 1: 0.60}, {0: 0.60, 1: 0.60}, NO),
        ({0: 0.60}, {0: 0.55}, NOT_TESTED),
        ({0: 0.60, 1: 0.61}, {0: 0.61, 1: 0.59}, UNDECIDED),
        ({0: 0.60, 1: 0.61}, {0: 0.70, 1: 0.71}, NO),
        # Seeds that differ by more than what the table is worth: pairs show it, groups do not.
        ({0: 0.50, 1: 0.60}, {0: 0.49, 1: 0.589}, UNDECIDED),
    ):
        folder = tmp_path / "reset_ablation"
        shutil.rmtree(folder, ignore_errors=True)
        for starts, recalls in (("table", table), ("ignored", ignored)):
            for seed, recall in recalls.items():
                make_run(folder, "bload", seed, recall=recall, train__starts=starts)
        assert judged(tmp_path, "start_table")[0] == verdict
    assert "Post hoc, seed by seed: +1.1 [+0.4, +1.7] (2 pairs" in judged(tmp_path, NAMES[5])[1]


@pytest.mark.parametrize(
    ("worth", "verdict"),
    [
        ((0.02, 0.07), YES),
        ((0.0, 0.07), UNDECIDED),
        ((-0.02, -0.07), NO),
        ((-0.02, 0.07), UNDECIDED),
    ],
)
def test_the_start_table_goes_by_the_planned_pairs_at_every_horizon(tmp_path, worth, verdict):
    for (dwell, gain), seed in itertools.product(zip((8.0, 1000.0), worth, strict=True), range(3)):
        for starts, recall in (("table", 0.6 + gain), ("ignored", 0.6 + 0.001 * seed)):
            options = {"train__starts": starts, "dataset__dwell": dwell}
            make_run(tmp_path / "horizon", "bload", seed, recall=recall, **options)
    found, says = judged(tmp_path, "start_table")
    assert found == verdict
    assert says.startswith("Planned, by pairs of one seed")
    assert f"{100 * worth[1] - 0.1:+.1f} [" in says
    assert "points where a state lasts the video. In the default world" in says


def test_a_deleted_frame_in_a_run_of_bload_is_reported_unless_it_was_asked_for(tmp_path):
    make_run(tmp_path, "bload", costs=(94, 900, 7), loader__long="truncate")
    assert judged(tmp_path, "deleted")[0] == NOT_TESTED
    make_run(tmp_path, "bload")
    assert judged(tmp_path, "deleted")[0] == NOT_TESTED
    make_run(tmp_path / "paper_table", "bload")
    assert judged(tmp_path, "deleted")[0] == YES
    run = make_run(tmp_path, "bload", costs=(94, 900, 7))
    verdict, figures = judged(tmp_path, "deleted")
    assert (verdict, run.name in figures) == (NO, True)

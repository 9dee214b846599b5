"""Verdicts follow the figures: each claim is reproduced, not reproduced and not tested in turn."""

import shutil

import pytest

from experiments.report.claims import NOT_REPRODUCED, NOT_TESTED, REPRODUCED, UNDECIDED, claims
from experiments.report.collect import collect
from tests.experiments.report.made_runs import make_deadlock, make_run, make_turns

NAMES = ("padding", "deleted", "faster", "recall", "recall_time", "starts", "deadlock")


def verdicts(runs) -> dict[str, str]:
    return {name: claim.verdict for name, claim in zip(NAMES, claims(collect(runs)), strict=True)}


def figures(runs, name: str) -> str:
    return claims(collect(runs))[NAMES.index(name)].figures


def test_an_empty_folder_tests_what_lengths_tell_alone(tmp_path):
    found = verdicts(tmp_path)
    assert (found.pop("padding"), found.pop("deleted")) == (REPRODUCED, REPRODUCED)
    assert set(found.values()) == {NOT_TESTED}


@pytest.mark.parametrize(
    ("sampling", "bload", "verdict"),
    [
        ((0.50, 0.51), (0.60, 0.61), REPRODUCED),
        ((0.60, 0.61), (0.50, 0.51), NOT_REPRODUCED),
        ((0.50, 0.60), (0.52, 0.62), NOT_REPRODUCED),
        ((0.50,), (0.60,), NOT_TESTED),
    ],
)
def test_recall_is_reproduced_only_where_the_whole_interval_is_above_zero(
    tmp_path, sampling, bload, verdict
):
    for loader, recalls in (("sampling", sampling), ("bload", bload)):
        for seed, recall in enumerate(recalls):
            make_run(tmp_path / "paper_table", loader, seed, recall=recall)
    assert verdicts(tmp_path)["recall"] == verdict
    said = figures(tmp_path, "recall")
    assert f"{len(bload)} and {len(sampling)} seeds" in said
    assert "synthetic data (1,000 training videos), model dds_tiny" in said


@pytest.mark.parametrize(
    ("faster", "frames", "verdict"),
    [
        (4.12, 166_785, REPRODUCED),
        (3.9, 166_785, UNDECIDED),
        (3.5, 166_785, NOT_REPRODUCED),
        (4.12, 22_342, NOT_TESTED),
    ],
)
def test_a_speed_up_counts_on_the_papers_lengths_alone(tmp_path, faster, frames, verdict):
    for loader, seconds in (("naive", 1000.0), ("bload", 1000 / faster)):
        for seed in (0, 1):
            make_run(tmp_path / "epoch_time", loader, seed, frames=frames, seconds=seconds)
    assert verdicts(tmp_path)["faster"] == verdict
    assert f"{faster:.1f}" in figures(tmp_path, "faster")


@pytest.mark.parametrize(
    ("faster", "noise", "verdict"),
    [(4.1, 0.01, REPRODUCED), (3.5, 0.01, NOT_REPRODUCED), (4.1, 0.5, UNDECIDED)],
)
def test_noise_does_not_make_a_speed_up(tmp_path, faster, noise, verdict):
    make_turns(tmp_path / "epoch_turns", faster, noise)
    assert verdicts(tmp_path)["faster"] == verdict


def test_one_measurement_of_time_has_no_verdict(tmp_path):
    options = {"dataset__train_videos": 7464, "train__epochs": 1}
    for loader, costs in (("naive", (94, 534_831, 0)), ("bload", (94, 4_953, 0))):
        make_run(tmp_path / "epoch_time", loader, frames=166_785, costs=costs, **options)
    assert verdicts(tmp_path)["faster"] == NOT_TESTED


def test_a_quick_experiment_has_no_verdict_on_recall(tmp_path):
    for loader, recall in (("sampling", 0.2), ("bload", 0.6)):
        for seed in (0, 1, 2):
            made = recall + 0.001 * seed
            make_run(tmp_path / "paper_table_quick", loader, seed, recall=made)
    assert verdicts(tmp_path)["recall"] == NOT_TESTED
    assert "+40.0" in figures(tmp_path, "recall")


@pytest.mark.parametrize(
    ("plain", "packed", "verdict"),
    [
        ("timed out", "finished", REPRODUCED),
        ("finished", "finished", NOT_REPRODUCED),
        ("timed out", "timed out", NOT_REPRODUCED),
    ],
)
def test_deadlock_needs_plain_ddp_to_hang_and_blocks_to_end(tmp_path, plain, packed, verdict):
    make_deadlock(tmp_path / "deadlock", plain, packed)
    assert verdicts(tmp_path)["deadlock"] == verdict


def test_starts_matter_only_if_ignoring_them_costs(tmp_path):
    def train(**recalls_by_starts):
        shutil.rmtree(tmp_path / "reset_ablation", ignore_errors=True)
        for starts, recalls in recalls_by_starts.items():
            for seed, recall in recalls.items():
                make_run(
                    tmp_path / "reset_ablation", "bload", seed, recall=recall, train__starts=starts
                )
        return verdicts(tmp_path)["starts"]

    assert train(table={0: 0.60, 1: 0.61}, ignored={0: 0.55, 1: 0.56}) == REPRODUCED
    assert train(table={0: 0.60, 1: 0.60}, ignored={0: 0.60, 1: 0.60}) == NOT_REPRODUCED
    assert train(table={0: 0.60, 1: 0.61}, ignored={2: 0.55, 3: 0.56}) == NOT_TESTED
    assert train(table={0: 0.60, 1: 0.61}, ignored={0: 0.61, 1: 0.59}) == UNDECIDED
    assert train(table={0: 0.60, 1: 0.61}, ignored={0: 0.70, 1: 0.71}) == NOT_REPRODUCED
    # Seeds that differ by more than what the table is worth: pairs tell it, groups do not.
    assert train(table={0: 0.50, 1: 0.60}, ignored={0: 0.49, 1: 0.589}) == REPRODUCED


def test_a_deleted_frame_in_a_run_of_bload_is_told(tmp_path):
    run = make_run(tmp_path / "paper_table", "bload", costs=(94, 900, 7))
    assert verdicts(tmp_path)["deleted"] == NOT_REPRODUCED
    assert run.name in figures(tmp_path, "deleted")

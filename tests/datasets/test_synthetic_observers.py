"""What observers of limited memory can reach is computed exactly, and they see no more."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from datasets.annotations.vocabulary import SPATIAL
from datasets.synthetic import World, write_scripts
from datasets.synthetic.__main__ import main
from datasets.synthetic.cues import (
    ATTENTION_CHANCES,
    ATTENTION_CODES,
    CONTACTING_CHANCES,
    CONTACTING_CODES,
)
from datasets.synthetic.evidence import evidence_ages
from datasets.synthetic.observers import (
    EVERYTHING,
    LISTS,
    expected_recall,
    realised_recall,
    triplet_weights,
)

KINDS = (("attention", ATTENTION_CHANCES), ("contacting", CONTACTING_CHANCES))


@pytest.fixture(scope="module")
def scripts():
    return write_scripts(World(test_videos=40, max_objects=4), "test")


def enumerated_weights(script, t, memory, part):
    """E[1(triplet holds) / G] of one frame by going through all joint codes."""
    weights_MR = np.zeros((len(script.classes_M), 26))
    choices, certain = [], []
    for m in np.flatnonzero(script.visible_TM[t]):
        if not part:
            certain += [(m, SPATIAL.start + r) for r in np.flatnonzero(script.spatial_TM6[t, m])]
        for told, chances, codes in (
            (script.attention, ATTENTION_CHANCES, ATTENTION_CODES),
            (script.contacting, CONTACTING_CHANCES, CONTACTING_CODES),
        ):
            age, code = told.age_TM[t, m], told.code_TM[t, m]
            if part and age < 1:
                continue
            held = range(len(codes)) if age >= memory else [code]
            choices.append([(chances[c] if age >= memory else 1, m, codes[c]) for c in held])
    for joint in itertools.product(*choices):
        chance = np.prod([p for p, _, _ in joint])
        triplets = certain + [(m, r) for _, m, relations in joint for r in relations]
        for m, r in triplets:
            weights_MR[m, r] += chance / len(triplets)
    return weights_MR


@pytest.mark.parametrize("memory", [1, 3, EVERYTHING])
@pytest.mark.parametrize("part", [False, True])
def test_weights_are_the_expectation_over_all_joint_codes(memory, part):
    checked = 0
    for script in write_scripts(World(test_videos=8, max_objects=2, delay_rate=1), "test"):
        weights_TMR = triplet_weights(script, memory, part)
        for t in range(0, script.frames, 9):
            wanted_MR = enumerated_weights(script, t, memory, part)
            np.testing.assert_allclose(weights_TMR[t], wanted_MR, rtol=1e-12, atol=1e-15)
            checked += script.visible_TM[t].sum() == 2
    assert checked >= 5


@pytest.mark.parametrize(("kind", "chances"), KINDS)
@pytest.mark.parametrize("age", [1, 5])
def test_a_code_out_of_reach_is_a_fresh_draw(kind, chances, age):
    # One draw an object, since the draws of one object are the same code for many frames.
    drawn = np.zeros(len(chances))
    for script in write_scripts(World(train_videos=1000, seed=5), "train"):
        told = getattr(script, kind)
        for m in range(len(script.classes_M)):
            frames = np.flatnonzero(told.age_TM[:, m] == age)
            if len(frames):
                drawn[told.code_TM[frames[0], m]] += 1
    assert drawn.sum() > 800
    assert chisquare(drawn, drawn.sum() * chances).pvalue > 0.001
    assert chisquare(drawn, np.full(len(drawn), drawn.mean())).pvalue < 1e-6


@pytest.mark.parametrize("memory", [1, 4])
def test_an_observer_does_not_see_codes_out_of_reach(scripts, memory):
    rng = np.random.default_rng(0)

    def retold(told, codes):
        other_TM = rng.integers(codes, size=told.code_TM.shape)
        return replace(told, code_TM=np.where(told.age_TM >= memory, other_TM, told.code_TM))

    for script in scripts:
        other = replace(
            script, attention=retold(script.attention, 3), contacting=retold(script.contacting, 25)
        )
        for part in (False, True):
            one, two = (triplet_weights(s, memory, part) for s in (script, other))
            np.testing.assert_array_equal(one, two)


def test_remembering_everything_has_its_expected_recall_exactly(scripts):
    expected = expected_recall(scripts, EVERYTHING)
    assert realised_recall(scripts, EVERYTHING) == pytest.approx(expected, abs=1e-12)
    assert expected["no/recall@50"] == pytest.approx(1)
    assert 0.5 < expected["with/recall@20"] < 1  # a pair of two relations in a group loses one


@pytest.mark.parametrize("memory", [1, 3])
def test_the_measure_gives_observers_what_they_expect(scripts, memory):
    # Codes are independent between videos but not within one: the standard error is of videos.
    gaps = {}
    for script in scripts:
        expected, realised = (f([script], memory) for f in (expected_recall, realised_recall))
        remembered = sum((age_G >= 1).any() for age_G in evidence_ages(script))
        for name in expected:
            frames = remembered if name.endswith("_memory") else script.frames
            if frames:
                gaps.setdefault(name, []).append(frames * (realised[name] - expected[name]))
    assert len(gaps) == 12
    for name, gap_V in gaps.items():
        error = np.sqrt(np.sum(np.square(gap_V)))
        assert abs(np.sum(gap_V)) < 3 * error, name
        assert error > 0, name


def test_more_memory_and_freer_lists_reach_more(scripts):
    recalls = [expected_recall(scripts, memory) for memory in (1, 2, 5, 10, EVERYTHING)]
    for one, more in itertools.pairwise(recalls):
        assert all(one[name] <= more[name] + 1e-12 for name in one)
    for ending in ("recall@10", "recall@20", "recall@20_memory"):
        assert recalls[0][f"with/{ending}"] < recalls[0][f"no/{ending}"]
        assert recalls[0][f"with/{ending}"] < recalls[2][f"with/{ending}"]


def test_cues_on_every_frame_leave_nothing_to_remember():
    scripts = write_scripts(World(test_videos=5, cue_rate=1.0), "test")
    memoryless, everything = (expected_recall(scripts, memory) for memory in (1, EVERYTHING))
    assert np.isnan(memoryless["with/recall@20_memory"])
    shown = {name for name in memoryless if not name.endswith("_memory")}
    assert {n: memoryless[n] for n in shown} == {n: everything[n] for n in shown}


def test_the_command_prints_both_lists_and_makes_no_root(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["observers", "--test-videos", "2", "--split", "test"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("test split: 2 videos, ")
    assert all(title in text for title in LISTS.values())
    assert sum(line.startswith("  realised") for line in text.splitlines()) == 6
    assert not list(tmp_path.iterdir())


def test_making_a_root_needs_a_root(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--test-videos", "2"])
    assert stop.value.code == 2
    assert "--root" in capsys.readouterr().err

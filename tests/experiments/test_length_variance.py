"""Slots are counted as `bload table` counts them, and the closed forms bound them."""

import json
import sys

import numpy as np
import pytest

from bload import PACKERS, InputError
from bload.table import table_rows
from experiments.length_laws import LAWS
from experiments.length_variance import CUT, DOUBLE, FULL, main, run

LOADERS = [*PACKERS, f"bload_exact {DOUBLE}"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("length_variance")
    with pytest.MonkeyPatch.context() as patch:
        options = f"--quick --sequences 300 --ranks 4 --out={folder}".split()
        patch.setattr(sys, "argv", ["length_variance.py", *options])
        main()
    record = json.loads((folder / "length_variance.json").read_text())
    assert (record["name"], record["sequences"]) == ("length_variance_quick", 300)
    return record["rows"]


def of_file(tmp_path, lengths, **options):
    """The rows of a user's own lengths, by loader."""
    path = tmp_path / "own.csv"
    path.write_text("length\n" + "".join(f"{length}\n" for length in lengths))
    found = run(**FULL | {"lengths": [str(path)], "seeds": 2} | options)["rows"]
    assert {row["lengths"] for row in found} == {str(path)}
    return {row["loader"]: row for row in found}


def test_every_loader_is_in_every_kind_of_lengths(rows):
    kinds = ["videos", *(kind + end for kind in LAWS for end in ("", CUT))]
    seen = [(row["lengths"], row["loader"]) for row in rows]
    assert seen == [(kind, loader) for kind in kinds for loader in LOADERS]
    assert {len(row[key]) for row in rows for key in ("times_fewer", "imbalance")} == {2}


def test_the_closed_forms_bound_what_is_counted(rows):
    for row in rows:
        assert row["closed_form"] == pytest.approx(row["t_max"] / row["mean"], rel=0.05)  # of means
        assert row["closed_form"] >= 1 + row["cv"] ** 2 - 1e-3
        assert (row["deleted"] > 0) == (row["loader"] in ("sampling", "mix"))
        if not row["deleted"]:  # the last step of naive has up to 7 blocks that are empty
            share = 1 + 7 / row["sequences"]
            assert np.mean(row["times_fewer"]) <= share * row["closed_form"]


def test_blocks_of_one_size_are_even_and_batches_of_whole_sequences_are_not(rows):
    for row in rows:
        uneven = row["loader"] in ("single", "bucket", "ragged")
        assert (min(row["imbalance"]) > 1) == uneven, row


def test_the_slots_are_those_of_the_table(tmp_path):
    lengths = np.random.default_rng(0).lognormal(3, 1, 300).round().clip(1, 200).astype(int)
    found = of_file(tmp_path, lengths, ranks=8)
    for seed in (0, 1):
        table = {row["loader"]: row for row in table_rows(lengths, seed=seed, ranks=8)}
        for loader in PACKERS:
            ratio = found[loader]["times_fewer"][seed]
            assert ratio == pytest.approx(table[loader]["naive_ratio"], abs=1e-4)
    assert found["mix"]["padding"] == table["mix"]["padding"]
    assert found["naive"]["t_max"] == lengths.max()


def test_sequences_longer_than_half_a_block_find_partners_in_one_twice_as_long(tmp_path):
    found = of_file(tmp_path, [100, *[60] * 299], ranks=1)
    assert found["bload_exact"]["over_half"] == 1
    assert found["bload_exact"]["times_fewer"] == [1, 1]
    assert min(found[f"bload_exact {DOUBLE}"]["times_fewer"]) == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize("option", ["sequences", "ranks", "seeds"])
def test_bad_options_are_refused(option):
    with pytest.raises(InputError, match=f"--{option}"):
        run(**FULL | {option: 0})

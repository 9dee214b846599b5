"""The command that prints what a model costs."""

import pytest

from experiments.model_summary import main


def test_the_summary_takes_overrides_and_prints_a_short_table(capsys):
    main(["model.queries=5", "train.batch_frames=3", "train.device=cpu"])
    text = capsys.readouterr().out
    for words in ("dds_tiny", "64 x 64", "cpu", "float32", "blocks of 3", "3 frames"):
        assert words in text
    rows = {row.split()[0]: row.split()[1:] for row in text.splitlines() if row}
    assert rows["object_class"][:2] == [f"{64 * 37 + 37:,}"] * 2
    kept, fixed, total = (float(rows[name][-2]) for name in ("activations", "weights,", "sum"))
    assert total == pytest.approx(kept + fixed, abs=0.011)
    assert len(text.splitlines()) < 40

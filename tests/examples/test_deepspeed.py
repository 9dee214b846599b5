"""DeepSpeed in an environment of its own, on two CPU ranks: the gradient, and what changes it."""

from pathlib import Path

import pytest

from tests.installation import ROOT, Environment, torchrun


@pytest.mark.slow
@pytest.mark.dist
def test_gradients_are_those_of_sequences_alone_unless_the_loss_is_divided(wheel, tmp_path):
    requirements = "-r", ROOT / "examples/trainers/requirements-deepspeed.txt"
    environment = Environment(tmp_path / "environment", wheel, *requirements)
    program = Path(__file__).with_name("in_deepspeed.py")
    said = environment.run(*torchrun(2), program, cwd=tmp_path, more={"DS_ACCELERATOR": "cpu"})
    rows = [line.split() for line in said.splitlines() if line[0] in "0123"]
    steps = len(rows) // 5
    assert [row[:2] for row in rows] == [[*f"{z}{s}"] for z in (*"0123", 0) for s in range(steps)]
    shares = [float(share) for _, _, share, _ in rows]
    assert shares == pytest.approx([1] * 4 * steps + [0.5] * steps, abs=1e-4)
    assert all(float(distance) < 1e-5 for *_, distance in rows)

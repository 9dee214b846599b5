"""Real data: nine speakers told apart, on two ranks."""

import re
import subprocess
import sys

import pytest

from tests.installation import ROOT, run, torchrun


@pytest.mark.slow
def test_speakers_are_told_apart(tmp_path):
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "aeon", "-d", tmp_path]
    subprocess.run(pip, check=True)  # the wheel that has the data, neither installed nor imported
    program = "examples/vowels.py", *tmp_path.glob("*.whl"), "blocks"
    said = run([sys.executable, *torchrun(2), *program], cwd=ROOT, more={"PYTHONPATH": str(ROOT)})
    (right,) = re.findall(r"blocks: ([\d.]+) % right", said)
    assert float(right) > 90  # seeds reach 91.9 to 95.4, published are 94.1 and 96.2

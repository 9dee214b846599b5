"""README's commands run as typed, but for what stands before ``&&``, in a clean shell."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
LINES = [line.split("  #")[0].split(" && ")[-1] for block in BLOCKS for line in block.splitlines()]
FEW = "dataset.train_videos=8 dataset.test_videos=1 dataset.validation_videos=1"
FEW += " dataset.final_videos=1 train.epochs=1"
SMALL = f"{FEW} model.decoder_layers=1 wandb.mode=disabled"
ENDS, TABLE = "Recall@20, with constraint", "table.md and table.csv"
ADDED = {  # part of a line -> what is added to it, and what it prints
    "pytest": None,  # .ci/run types this line
    "eval.py": ("", "needs memory"),
    "bload table": ("", "bload_exact"),
    "experiment=action_genome": ("", "annotations"),
    "tmax_sweep": (f"{SMALL} loader.t_max=32,64 loader=bload", TABLE),
    "paper_table": (f"{SMALL} loader=naive,bload", TABLE),
    "-m ": (SMALL, TABLE),
    "torchrun train.py": (FEW, ENDS),
    "train.py": (SMALL, ENDS),
}
"""The first that is part of a line holds for it."""


@pytest.mark.slow
def test_lines_run_as_typed(tmp_path):
    for name in ("train.py", "eval.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    clean = ["env", "-i", f"PATH={path}", f"HOME={tmp_path}", "OMP_NUM_THREADS=1", "bash", "-c"]
    for line in LINES:
        added = next(value for part, value in ADDED.items() if part in line)
        if added is None:
            continue
        words, expected = added
        done = subprocess.run(
            [*clean, f"{line} {words}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        printed = done.stdout + done.stderr
        assert expected in printed, f"{line}: {printed[-2000:]}"
        assert (done.returncode == 0) == ("action_genome" not in line), f"{line}: {printed[-2000:]}"

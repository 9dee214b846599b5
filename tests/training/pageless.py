"""Runs train.py; its runs end without a page, which takes longer than small runs do."""

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

import train
from training import jobs

sys.modules["training.report.page"] = SimpleNamespace(write_or_warn=lambda *_: None)
if __name__ == "__main__":  # not in data workers
    jobs.run(train.main)

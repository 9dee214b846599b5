"""The parts of `train.py` and `eval.py`, and the experiments."""

from datasets.supported import check

check()  # before anything is imported that needs another Python or system

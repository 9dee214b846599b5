"""The parts of `train.py` and `eval.py`, and the experiments."""

from datasets.supported import check
from experiments.terminal import give_bars_room

check()  # before anything is imported that needs another Python or system
give_bars_room()  # before tqdm is imported

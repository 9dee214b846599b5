"""What `train.py` and `eval.py` are made of."""

from datasets.supported import check
from training.terminal import give_bars_room

check()  # before anything is imported that needs another Python or system
give_bars_room()  # before tqdm is imported

"""The parts of `train.py` and `eval.py`, and the experiments."""

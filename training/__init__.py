"""The parts of `train.py` and `eval.py`."""

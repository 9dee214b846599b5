"""What `train.py` and `eval.py` are made of."""

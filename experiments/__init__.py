"""What `train.py` and `eval.py` need around their loops."""

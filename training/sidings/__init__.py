"""Options that most runs do not use, a file each.

One line switches each of them on: in training/build.py, but carry in run.py,
and ablations of an evaluation in eval.py.
"""

"""Options that most runs do not use, a file each.

One line switches each of them on: in training/build.py, but carry in run.py, fitted in data.py,
and ablations of an evaluation in eval.py. A siding that has state to save puts it
into a checkpoint under its own name.
"""

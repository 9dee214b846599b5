"""Options that most runs do not use, a file each.

training/build.py switches each of them on in one line. A siding that has state to save puts it into
a checkpoint under its own name.
"""

"""A synthetic Action Genome: make one, or compute the recall of observers of limited memory in it.

python -m datasets.synthetic --root DIR [knobs]
python -m datasets.synthetic observers [--split train] [knobs]
"""

import argparse

from datasets.files import exit_on_input_error
from datasets.synthetic.observers import observers_table
from datasets.synthetic.world import SPLITS, World
from datasets.synthetic.writer import make_if_missing


@exit_on_input_error()
def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser("python -m datasets.synthetic", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("make", "observers"), default="make")
    parser.add_argument("--root", help="folder to make")
    parser.add_argument("--split", choices=SPLITS, default="test", help="for observers")
    for name, default in World().knobs.items():
        option, words = f"--{name.replace('_', '-')}", f"default {default}"
        parser.add_argument(option, type=type(default), default=default, help=words)
    knobs = vars(parser.parse_args(arguments))
    command, root, split = (knobs.pop(name) for name in ("command", "root", "split"))
    if command == "make" and root is None:
        parser.error("the following arguments are required: --root")
    is_made = command == "make"
    print(make_if_missing(root, **knobs) if is_made else observers_table(World(**knobs), split))


if __name__ == "__main__":
    main()

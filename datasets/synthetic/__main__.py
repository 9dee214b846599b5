"""Make a synthetic Action Genome: ``python -m datasets.synthetic --root DIR [knobs]``."""

import argparse
import sys
from dataclasses import fields

from bload.errors import InputError
from datasets.synthetic.world import World
from datasets.synthetic.writer import ensure


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit status, 2 for what the user can mend."""
    parser = argparse.ArgumentParser(prog="python -m datasets.synthetic", description=__doc__)
    parser.add_argument("--root", required=True, help="folder to make")
    for knob in fields(World):
        parser.add_argument(
            f"--{knob.name.replace('_', '-')}",
            type=type(knob.default),
            default=knob.default,
            help=f"default {knob.default}",
        )
    knobs = vars(parser.parse_args(arguments))
    try:
        print(ensure(**knobs))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Make a synthetic Action Genome: ``python -m datasets.synthetic --root DIR [knobs]``."""

import argparse
import sys
from dataclasses import fields

from bload.errors import InputError
from datasets.synthetic.world import World
from datasets.synthetic.writer import ensure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m datasets.synthetic", description=__doc__)
    parser.add_argument("--root", required=True, help="folder to make")
    for knob in fields(World):
        parser.add_argument(
            f"--{knob.name.replace('_', '-')}",
            type=type(knob.default),
            default=knob.default,
            help=f"default {knob.default}",
        )
    knobs = vars(parser.parse_args())
    try:
        print(ensure(**knobs))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

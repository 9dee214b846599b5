"""``python -m training.report runs/NAME``: draw the page of a run, finished or not."""

import argparse
from pathlib import Path

import torch

from bload import InputError
from training.report.page import write_page
from training.report.write import drawn_files

parser = argparse.ArgumentParser(prog="python -m training.report", description=__doc__)
parser.add_argument("run", type=Path, help="folder of a run")
folder = parser.parse_args().run
try:
    write_page(folder, torch.device("cpu"))
except InputError as error:
    parser.exit(2, f"error: {error}\n")
print(*drawn_files(folder), sep="\n")

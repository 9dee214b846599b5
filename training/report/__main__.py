"""``python -m training.report runs/NAME``: write the page of a run, finished or not."""

import argparse
from pathlib import Path

from datasets.files import exit_on_input_error
from training.folder import RunFolder
from training.report.page import write_page

parser = argparse.ArgumentParser(prog="python -m training.report", description=__doc__)
parser.add_argument("run", type=Path, help="folder of a run")
folder = RunFolder(parser.parse_args().run)
with exit_on_input_error():
    write_page(folder)
print(folder.page)

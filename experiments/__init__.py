"""Studies, each with its own table, some with a chart; and benchmarks."""

import os

os.environ["MPLBACKEND"] = "agg"  # a notebook's is not for programs

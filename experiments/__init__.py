"""Studies, each with its own table and chart, and benchmarks."""

import os

os.environ["MPLBACKEND"] = "agg"  # a notebook's is not for programs

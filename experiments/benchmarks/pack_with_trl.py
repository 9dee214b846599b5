"""Pack lengths by TRL, apart from this project, whose `datasets` hides the package of that name.

python -I experiments/benchmarks/pack_with_trl.py LENGTHS.npy T_MAX    # prints JSON
"""

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    from trl import pack_dataset

    datasets = importlib.import_module("datasets")  # not this project's
    datasets.disable_progress_bars()
    lengths = np.load(sys.argv[1])
    column = {"tokens": [np.full(n, i, np.int32) for i, n in enumerate(lengths)]}
    data = datasets.Dataset.from_dict(column)
    del column
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    began = time.perf_counter()
    packed = pack_dataset(data, int(sys.argv[2]), "bfd")
    seconds = time.perf_counter() - began
    mib = (memory("VmHWM") - before) / 1024
    rows = packed.with_format("numpy")["tokens"]
    blocks = [[int(i) for i in dict.fromkeys(np.asarray(row).tolist())] for row in rows]
    json.dump({"seconds": seconds, "mib": mib, "blocks": blocks}, sys.stdout)


def memory(name: str) -> int:
    """A figure of this process in KiB, as Linux has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()

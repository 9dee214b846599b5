"""Pack lengths by TRL, apart from this project, whose `datasets` hides the package of that name.

python -I experiments/benchmarks/pack_with_trl.py LENGTHS.npy T_MAX    # prints JSON
"""

import importlib
import json
import sys
import time

import numpy as np


def main() -> None:
    from trl import pack_dataset

    datasets = importlib.import_module("datasets")  # not this project's
    datasets.disable_progress_bars()
    lengths = np.load(sys.argv[1])
    column = {"tokens": [np.full(n, i, np.int32) for i, n in enumerate(lengths)]}
    data = datasets.Dataset.from_dict(column)
    began = time.perf_counter()
    packed = pack_dataset(data, int(sys.argv[2]), "bfd")
    seconds = time.perf_counter() - began
    rows = packed.with_format("numpy")["tokens"]
    blocks = [[int(i) for i in dict.fromkeys(np.asarray(row).tolist())] for row in rows]
    json.dump({"seconds": seconds, "blocks": blocks}, sys.stdout)


if __name__ == "__main__":
    main()

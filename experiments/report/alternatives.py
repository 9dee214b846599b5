"""What else could feed the ranks, beside blocks: ``python -m experiments.alternatives``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bload.draw import label_of
from experiments.report.exhibits import Estimate, Exhibit, Part, missing, note, ratio, rows
from experiments.report.results import Results

WAY = ["loader", "padding", "ranks"]


def beside_exact(found: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The rows of the record by `WAY`, with two columns more.

    ``rate``: frames per second, the geometric mean over rounds; ``beside``: its ratio to that of
    bload_exact with padding computed on as many ranks, round by round.
    """
    ways = pd.DataFrame(found).set_index(WAY)
    rates = ways.rates.to_dict()
    ways["rate"] = [float(np.exp(np.log(mine).mean())) for mine in ways.rates]
    ways["beside"] = [
        ratio(mine, rates["bload_exact", "computed", ranks], paired=True)
        for (*_, ranks), mine in rates.items()
    ]
    return ways


def known(results: Results) -> pd.DataFrame | None:
    """`beside_exact` of the results, if they have them."""
    record = results.measured("alternatives")
    return beside_exact(record["rows"]) if record else None


def speed_lines(results: Results) -> list[tuple[str, dict[str, Estimate], str]]:
    """Lines of the overview: speed of each loader beside bload_exact, on the most ranks."""
    ways = known(results)
    if ways is None:
        return []
    ranks = ways.index.get_level_values("ranks").max()
    return [
        (
            f"Speed on {ranks} rank{'s' * (ranks > 1)}, padding {padding}: ours",
            {key[0]: beside for key, beside in ways.beside.items() if key[1:] == (padding, ranks)},
            "2",
        )
        for padding in ("computed", "skipped")
    ]


def alternatives(results: Results) -> list[Part]:
    ways, record = known(results), results.measured("alternatives")
    if ways is None or record is None:
        return [missing("what else could feed the ranks", "alternatives")]
    return [
        Exhibit(
            f"What else could feed {ranks} rank{'s' * (ranks > 1)}",
            rows("loader", _columns(mine.droplevel("ranks")), "0 2 0 0 3 0 0", _name),
            note("alternatives", record),
        )
        for ranks, mine in ways.groupby("ranks", sort=False)
    ]


def _columns(ways: pd.DataFrame) -> dict[str, pd.Series]:
    return {
        "frames per second": ways.rate,
        "beside BLoad exact": ways.beside,
        "padded": ways.padded,
        "deleted": ways.deleted,
        "imbalance": ways.imbalance,
        "peak memory of a turn, MiB": ways.peak_mib,
        "one shape": ways.static.map({True: "yes", False: "no"}),
    }


def _name(key: tuple[str, str]) -> str:
    return f"{label_of(key[0])}, {key[1]}"

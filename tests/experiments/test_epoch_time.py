"""Times faster than naive, round by round."""

import pandas as pd

from experiments.epoch_time import tables


def test_a_ratio_is_of_epochs_and_of_the_same_round():
    known = {"naive": {"slots": 800, "steps": 8}, "bload": {"slots": 400, "steps": 4}}
    rows = [
        {"measured": "here", "loader": loader, "frames": 200, "seconds_a_step": seconds, **of}
        for loader, of in known.items()
        for seconds in (0.1, 0.3)  # the machine slowed down
    ]
    faster, costs = tables(pd.DataFrame(rows)).split("\n\n")
    found = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in faster.splitlines()}
    assert found["by slots processed"] == "2.000"
    assert found["here"] == "2.00 [2.00, 2.00]"
    assert found["the paper"] == "4.15"
    words = [of.strip() for of in costs.splitlines()[2].split("|")[1:-1]]
    assert words == ["naive", "8", "800", "25", "200"]

"""The experiments that are rows of figures: deadlock, and lengths that vary widely."""

import pandas as pd

from bload.draw import label_of
from experiments.report.charts import line_chart
from experiments.report.figures import Block, Exhibit, cell, missing, note, rows
from experiments.report.results import Results, in_order
from experiments.runs import figure

FIGURES = (
    *("longest", "t_max", "padding", "lower_bound_padding", "deleted", "processed", "blocks"),
    *("plan_seconds", "epoch_seconds"),
)


def deadlock(results: Results) -> list[Block]:
    record = results.measured("deadlock")
    if record is None:
        return [missing("the deadlock of plain DDP", "deadlock")]
    found = []
    for row in record["rows"]:
        ended, expected = row.get("ended"), row.get("expected")
        how = f", {'as' if ended == expected else 'not as'} expected" if expected else ""
        steps = ", ".join(map(str, row.get("steps") or []))
        line = {"what": row.get("what"), "loader": row.get("loader"), "ended": f"{ended}{how}"}
        line |= {"steps of the ranks": steps, "seconds": figure(row.get("seconds"))}
        line |= {"it says": row.get("says")}
        found.append({name: cell(value, "1") for name, value in line.items()})
    return [Exhibit("Two ranks on videos of uneven length", found, kind="words")]


def lengths(results: Results) -> list[Block]:
    """Padding and time where lengths spread over orders of magnitude."""
    record = results.measured("length_variance")
    if record is None:
        return [missing("measurements on lengths of 1 to 1,000 and 10,000", "length_variance")]
    found = pd.DataFrame(record["rows"], columns=["shape", "loader", *FIGURES])
    found = found.assign(**{key: found[key].map(figure) for key in FIGURES})
    found = found.assign(**{key: found[key].fillna("").map(str) for key in ("shape", "loader")})
    columns = {
        **{"loader": found.loader.map(label_of), "T_max": found.t_max, "padded": found.padding},
        **{"fewest possible": found.lower_bound_padding, "deleted": found.deleted},
        **{"processed": found.processed, "blocks": found.blocks},
        **{"planning, s": found.plan_seconds, "epoch, s": found.epoch_seconds},
    }
    names = found["shape"] + " up to " + found.longest.map("{:,.0f}".format)
    table = rows("lengths", columns, "0 0 0 0 0 0 0 3 1", names.get)
    known = in_order(found[found.processed > 0], "longest")
    charts = [_shares(known), _times(known[known.epoch_seconds > 0])]
    return [*filter(None, charts), Exhibit("Every measurement", table)]


def _shares(found: pd.DataFrame) -> Exhibit:
    """Padding as a share of the work against the longest length."""
    naive = found.t_max.where(found.loader == "naive")
    whole = naive.groupby([found["shape"], found.longest]).transform("max").fillna(0)
    split = found.loader.str.startswith("bload") & (found.t_max < whole)  # only in the table
    share = (100 * found.padding / found.processed)[~split]
    groups = share.groupby([found.loader, found.longest], sort=False)
    points = groups.agg(y="mean", low="min", high="max").reset_index(names=["loader", "x"])
    shown = [
        f"{label_of(loader)} " + ", ".join(f"{p.y:.1f} up to {p.x:,.0f}" for p in part.itertuples())
        for loader, part in points.groupby("loader", sort=False)
    ]
    title = "Padding against the longest sequence"
    labels = ("longest sequence, frames", "padding, % of the work")
    svg = line_chart(title, points, labels, log="x", zero=True)
    text = f"Padding in percent of the work by the longest sequence: {'; '.join(shown)}."
    return Exhibit(title, [], note("shares"), svg, text)


def _times(found: pd.DataFrame) -> Exhibit | None:
    rates = found.processed / found.epoch_seconds
    title = "Time of an epoch against the slots that it processes"
    points = found.assign(x=found.processed, y=found.epoch_seconds)
    labels = ("slots processed per epoch", "seconds per epoch")
    text = (
        f"Seconds per epoch against slots processed, both on logarithmic scales: {len(found)} "
        f"measurements of {rates.min():,.0f} to {rates.max():,.0f} slots per second."
    )
    svg = line_chart(title, points, labels, log="xy", joined=False)
    return Exhibit(title, [], note("walked"), svg, text) if len(found) else None

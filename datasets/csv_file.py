"""Tables as CSV in which no text from outside is a formula for a spreadsheet."""

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\n")


def csv_text(table: pd.DataFrame) -> str:
    """Return a table as CSV without its index; texts that begin like a formula begin with ``'``.

    Numbers stay as they are, and so do their signs.
    """
    return table.map(_quoted).rename(columns=_quoted).to_csv(index=False)


def _quoted(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # pandas would write it bare, and a reader begin a row there
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) else text

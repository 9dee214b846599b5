"""The report: one HTML page, and the same as Markdown, from whatever runs a folder holds.

runs and epochs (experiments.runs) -> results -> sections of texts, tables and charts -> page
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.report.page import Written, write_report

__all__ = ["Written", "write_report"]


def __getattr__(name: str) -> Any:
    # Tables and charts take seconds to import, which a command line that is refused needs not.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from experiments.report import page

    return getattr(page, name)

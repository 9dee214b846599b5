"""The report: one HTML page, the same as Markdown and CSV, from whatever runs a folder holds.

    collect -> sections of tables, charts and texts (document) -> html, markdown, figures (CSV)

Needs jinja2 and scipy (``pip install bload[report]``); the rest of the library does not.
"""

from experiments.report.write import Report, write_report

__all__ = ["Report", "write_report"]

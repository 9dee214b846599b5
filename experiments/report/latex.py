"""The paper's table with ours in LaTeX: booktabs, with intervals under their figures."""

import re

import pandas as pd

from experiments.report.results import Results
from experiments.report.tables import overview

HEAD = r"""% \input this in a paper that loads booktabs, or compile it by itself.
\expandafter\ifx\csname @twoclasseserror\endcsname\documentclass\else
  \documentclass{article}
  \usepackage[margin=25mm]{geometry}
  \usepackage{booktabs}
  \def\alone{}
  \begin{document}
\fi
"""
TAIL = "\\ifdefined\\alone\\expandafter\\enddocument\\fi\n"
SMALL = "\\footnotesize\\setlength{\\tabcolsep}{3pt}\n\\begin{tabular}"
CAPTION = (
    "BLoad's table and ours. Brackets are 95 \\% intervals. Speed is in frames per second, as a "
    "share of that of BLoad exact with padding computed. Recall@20 of other data than the paper's "
    "compares loaders with each other alone."
)


def main_table(results: Results) -> str:
    """A file that LaTeX compiles by itself, and that a paper may ``\\input``."""
    table = overview(results)
    lines = []
    for row in table.rows:
        name, *texts = row.values()
        cells = [text.partition(" [") for text in texts]
        lines.append([name, *(figure for figure, _, _ in cells)])
        if any(interval for *_, interval in cells):
            lines.append(["", *(f"[{rest}" if rest else "" for *_, rest in cells)])
    shown = pd.DataFrame(lines, columns=[*table.rows[0]]).style.hide(axis="index")
    shown = shown.format(escape="latex").format_index(escape="latex", axis=1)
    shown = shown.map(lambda text: "scriptsize:" if text.startswith("[") else "")
    text = shown.to_latex(
        column_format=f"@{{}}l{'r' * len(lines[0][1:])}@{{}}",
        position="htbp",
        position_float="centering",
        hrules=True,
        caption=CAPTION,
        label="tab:bload",
    )
    text = re.sub(r"(?<=& )-(?= [&\\])", "--", text)  # nothing
    text = re.sub(r"(?<=[ \[])-(?=[ \d])", r"\\(-\\)", text)
    text = re.sub(r"^(?=[^:&\n]+: paper)", r"\\addlinespace\n", text, flags=re.MULTILINE)
    return HEAD + text.replace(r"\begin{tabular}", SMALL) + TAIL

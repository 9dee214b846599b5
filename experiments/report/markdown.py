"""The report as Markdown: tables as tables, charts as their text and figures."""

import re

from experiments.report.document import Block, Cell, Chart, Commands, Missing, Page, Table, Text


def render_markdown(page: Page) -> str:
    parts = [f"# {page.title}", page.lead]
    for section in page.sections:
        parts.append(f"## {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return text
        case Missing(text, command):
            return f"*{text}* Make it: `{command}`"
        case Commands(lines):
            return "```bash\n" + "\n".join(lines) + "\n```"
        case Chart(title=title, alternative=alternative, table=table, note=note):
            text = f"{alternative} {note}".strip()
            return f"**{title}.** {text}" if table is None else f"{text}\n\n{format_table(table)}"
        case Table():
            return format_table(block)


def format_table(table: Table) -> str:
    """A table in Markdown under its title; figures to the right."""
    rules = ["--:" if numeric else "---" for numeric in table.numeric]
    lines = [_row(table.columns), _row(rules), *(_row(map(_text, row)) for row in table.rows)]
    text = f"**{table.title}**\n\n" + "\n".join(lines)
    return f"{text}\n\n{table.note}" if table.note else text


def _row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(cell: Cell) -> str:
    text = re.sub(r"\s+", " ", cell.text).replace("|", "\\|")
    return f"**{text}**" if cell.tone else text

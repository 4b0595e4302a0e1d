"""Tables of rows of text in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onednn_graph_py.base.text.table import Markup


def in_markdown(text: str) -> str:
    """Put text on one line, and escape characters that begin emphasis, a column or an element."""
    for character, escaped in (("|", "\\|"), ("*", "\\*"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(character, escaped)
    return text


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a cell that is `Markup` stays as it is."""

    def shown(cell: str) -> str:
        lines = map(in_markdown, cell.split("\n"))
        return cell if isinstance(cell, Markup) else "<br>".join(lines)

    made = [f"| {' | '.join(map(shown, row))} |" for row in (head, *rows)]
    return [made[0], "|" + " --- |" * len(head), *made[1:]]

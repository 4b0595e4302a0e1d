"""HTML elements, and tables of rows of text, whose cells may have several lines.

Only this module turns text into HTML.
"""

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import zip_longest


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def joined(parts: Iterable[str], by: str = "") -> Markup:
    """Join parts, escaped unless they are `Markup`, with HTML such as ``<br>`` between them."""
    return Markup(by.join(p if isinstance(p, Markup) else escape(p) for p in parts))


def element(name: str, *content: str, **attributes: str) -> Markup:
    """Make an element of text and `Markup`; empty attributes are left out.

    >>> element("td", "a < b", style="color:red", title="")
    '<td style="color:red">a &lt; b</td>'
    """
    given = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items() if v)
    return Markup(f"<{name}{given}>{joined(content)}</{name}>")


def text_table(
    rows: Iterable[Sequence[str]], *, right: Container[int] = (), indent: str = ""
) -> list[str]:
    """Return lines of aligned columns; those in `right` are aligned to the right, for numbers.

    >>> text_table([("op", "ms"), ("MatMul", "12.5"), ("Add", "3")], right=[1])
    ['op        ms', 'MatMul  12.5', 'Add        3']
    """
    table = [[cell.split("\n") for cell in row] for row in rows]
    columns = zip(*table, strict=True)
    widths = [max(len(line) for cell in column for line in cell) for column in columns]
    lines = []
    for cells in table:
        for line in zip_longest(*cells, fillvalue=""):
            aligned = (
                text.rjust(width) if i in right else text.ljust(width)
                for i, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            lines.append((indent + "  ".join(aligned)).rstrip())
    return lines


def html_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Container[int] = (),
    cell: str = "",
    style: str = "",
) -> Markup:
    """Make a ``table``; `head` may be empty, and a cell that is `Markup` is a whole ``td``.

    The columns in `right` are of numbers; `cell` and `style` are CSS of each cell and of the table.
    """

    def row(name: str, cells: Sequence[str]) -> Markup:
        elements = []
        for i, text in enumerate(cells):
            css = ";".join(filter(None, (cell, "text-align:right" * (i in right))))
            lines = joined(text.split("\n"), "<br>")
            elements.append(text if isinstance(text, Markup) else element(name, lines, style=css))
        return element("tr", *elements)

    top = [element("thead", row("th", head))] if head else []
    body = element("tbody", *(row("td", cells) for cells in rows))
    return element("table", *top, body, style=style)

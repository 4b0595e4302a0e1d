"""HTML elements; only this module turns text into HTML."""

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def joined(parts: Iterable[str], by: str = "") -> Markup:
    """Join parts, escaped unless they are `Markup`, with HTML such as ``<br>`` between them."""
    return Markup(by.join(p if isinstance(p, Markup) else escape(p) for p in parts))


def element(name: str, *content: str, **attributes: str) -> Markup:
    """Make an element of text and `Markup`; empty attributes are left out.

    Examples
    --------
    >>> element("td", "a < b", style="color:red", title="")
    '<td style="color:red">a &lt; b</td>'
    """
    given = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items() if v)
    return Markup(f"<{name}{given}>{joined(content)}</{name}>")

"""The documentation's page of what oneDNN's documents say and the library does not do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from gallery import PATTERNS
from gallery.markdown import markdown_table
from gallery.pattern import ALL_VERSIONS
from onednn_graph_py.ops.describe import version_text
from onednn_graph_py.ops.lookup import OPS
from onednn_graph_py.ops.terms import Version

from . import ROOT

__all__ = ["PAGE", "Row", "of_ops", "of_patterns", "text"]

PAGE = ROOT / "docs" / "onednn_documents.md"

HEAD = """\
# Where oneDNN differs from its documentation

Each row names a page of oneDNN's documentation and what the library does instead. It is for anyone
who wonders why a graph that follows the documents is refused, or is not fused. This package follows
the library, and takes both spellings where it can. `./dev test` checks each row: those of ops by
the named test of `tests/`, those of patterns by `tests/safety/test_patterns.py`, which runs the
[gallery](patterns.md). Patterns were measured with 3.7.2 and 3.13.2: where a row begins or ends at
3.13, the versions between may behave like either. Where a row names several ops, it gives the page
of the first.

"""

_TESTS = {
    "The documents spell auto_pad": "test_the_spelling_of_auto_pad",
    "The documents call the weights formats": "test_the_names_of_transposed_weights",
    "The documents list output_padding": "test_the_output_padding_of_gradients",
    "The documents say that seed and offset": "test_the_type_of_dropouts_seed",
}
"""The test in `test_documents.py` of a note of the operation table, by its beginning."""


class Row(NamedTuple):
    """One statement.

    Parameters
    ----------
    page : str
        oneDNN's page.
    what : str
        What the library does.
    where : str
        The ops or patterns that it is about.
    versions : str
    test : str
        A test, or the gallery's patterns.
    """

    page: str
    what: str
    where: str
    versions: str
    test: str


def _joined(names: Iterator[str] | list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def of_ops() -> list[Row]:
    """Return the rows that the operation table's notes tell."""
    kinds: dict[str, list[str]] = {}
    for schema in OPS.values():
        for note in schema.notes:
            # Grouped weights are a pattern of the gallery.
            if note.startswith("The documents"):
                kinds.setdefault(note, []).append(schema.kind)
    made = []
    for note, of in kinds.items():
        test = next((t for start, t in _TESTS.items() if note.startswith(start)), "")
        pages = _joined([f"graph/operations/{kind}" for kind in of[:1]])
        since = max(OPS[kind].since for kind in of)
        made.append(
            Row(
                pages,
                note,
                _joined(of),
                _versions(since, ALL_VERSIONS[1]),
                f"test_documents.py::{test}",
            )
        )
    return made


def _versions(since: Version, until: Version) -> str:
    first = "" if since <= (3, 7) else f"from {version_text(since)} on"
    last = "" if until == ALL_VERSIONS[1] else f"before {version_text(until)}"
    return ", ".join(filter(None, (first, last))) or "all"


def _sentence(why: str) -> str:
    return (why if why.startswith("oneDNN") else why[0].upper() + why[1:]) + "."


def of_patterns() -> list[Row]:
    """Return the rows that the gallery's deviations tell."""
    found: dict[str, dict[tuple[Version, Version], list[tuple[str, str]]]] = {}
    for pattern in PATTERNS.values():
        for case in pattern.cases:
            for d in case.deviations:
                of = found.setdefault(d.why, {})
                of.setdefault((d.since, d.until), []).append((pattern.id, pattern.page))
    return [
        Row(
            _joined([page for _, page in of]),
            _sentence(why),
            _joined([number for number, _ in of]),
            _versions(*versions),
            f"{len(of)} {'case' if len(of) == 1 else 'cases'} of the gallery",
        )
        for why, by_versions in found.items()
        for versions, of in _one_after_another(by_versions).items()
    ]


_Cases = dict[tuple[Version, Version], list[tuple[str, str]]]


def _one_after_another(found: _Cases) -> _Cases:
    """Join versions that follow one another; others, which different cases have, stay apart."""
    ranges = sorted(found)
    if any(until != since for (_, until), (since, _) in pairwise(ranges)):
        return found
    return {(ranges[0][0], ranges[-1][1]): [case for r in ranges for case in found[r]]}


def _table(rows: list[Row], of: str) -> list[str]:
    cells = [(r.page, r.what, r.where, r.versions, r.test) for r in rows]
    return [*markdown_table(("oneDNN's page", "the library", of, "oneDNN", "shown by"), cells), ""]


def text() -> str:
    """Return the page."""
    lines = [HEAD + "## Ops\n", *_table(of_ops(), "ops")]
    lines += ["## Patterns\n", *_table(of_patterns(), "patterns")]
    return "\n".join(lines).rstrip() + "\n"

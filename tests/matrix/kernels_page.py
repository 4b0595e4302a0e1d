"""The documentation's page of kernels and speed, made of what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onednn_graph_py.patterns import PATTERNS
from onednn_graph_py.text.markup import Markup, element

from .results import Result, load_all

__all__ = ["PAGE", "text"]

PAGE = Path(__file__).parents[2] / "docs" / "onednn_kernels.md"

HEAD = """\
---
hide-toc: true
---

# Kernels and speed by version and instruction set

These maps show, for each pattern that oneDNN documents, whether it runs one of its
reference kernels, and what fusion gains. They are for anyone who chooses a version, or who wants to
know what a model gives up on a CPU with fewer instructions. One case of the
[gallery](patterns.md) stands for each pattern and data type; it is small, so its kernels and times
need not be those of large shapes. Measured with oneDNN held to one instruction set after the other
(`./dev matrix`):

"""

KERNELS = """\
## Kernels

✓: no measured data type runs a reference kernel, which is one whose name has `ref`: plain C++ that
is not made for speed. ○ n/m: n of m data types run one. An empty cell: oneDNN does not run the
pattern there, or it was not measured. The title of a cell names the kernels.
"""

GAINS = """\
## Fused against apart

The time with one op in each partition by the time as models compile it: the mean of a pattern's
data types (geometric). More than 1: fusion gains. Times of single small calls vary by some 10 %.
"""

_NOTABLE = 1.1
"""The least ratio that is shown as a difference."""


def _is_reference(kernel: str) -> bool:
    # One kernel may run another, such as conv:any+ref:any.
    return any(name.startswith("ref") for name in kernel.split()[-1].split("+"))


def _kernels_cell(entries: dict[str, Any]) -> Markup:
    if not entries:
        return element("td")
    slow = [t for t, e in entries.items() if any(map(_is_reference, e["kernels"]))]
    names = {t: ", ".join(dict.fromkeys(e["kernels"])) for t, e in entries.items()}
    lines = (f"{t}: {of or 'reorders alone'}" for t, of in names.items())
    mark = f"○ {len(slow)}/{len(entries)}" if slow else "✓"
    shade = {"style": f"--share:{len(slow) / len(entries):.0%}"} if slow else {}
    name = {"class": "reference" if slow else "generated"}
    return element("td", mark, title="; ".join(lines), **name, **shade)


def _gains_cell(entries: dict[str, Any]) -> Markup:
    gains = {t: e["gain"] for t, e in entries.items() if e.get("gain")}
    if not gains:
        return element("td")
    mean = math.exp(sum(map(math.log, gains.values())) / len(gains))
    name = "gains" if mean >= _NOTABLE else "loses" if mean <= 1 / _NOTABLE else "even"
    lines = (f"{t}: {gain:g}" for t, gain in gains.items())
    shade = f"--share:{min(1.0, abs(math.log2(mean)) / 2):.0%}"
    return element("td", f"{mean:.2g}", title="; ".join(lines), style=shade, **{"class": name})


def _map(results: list[Result], cell: Callable[[dict[str, Any]], Markup]) -> Iterator[str]:
    """Return the lines of a map: a row for each pattern, a column for each measurement."""
    versions: dict[str, list[Result]] = {}
    for r in results:
        versions.setdefault(f"{r.version} {r.runtime}", []).append(r)
    yield '<div class="heat-map versions" tabindex="0"><table><thead>'
    groups = (
        element("th", v, colspan=str(len(rs)), scope="colgroup") for v, rs in versions.items()
    )
    yield element("tr", element("th", "pattern", scope="col", rowspan="2"), *groups)
    yield element(
        "tr", *(element("th", r.isa, scope="col") for rs in versions.values() for r in rs)
    )
    yield "</thead><tbody>"
    for pattern in PATTERNS.values():
        if not any(pattern.id in r.kernels for r in results):
            continue
        name = f"{pattern.id} {pattern.name.replace('_', ' ')}"
        cells = (cell(r.kernels.get(pattern.id, {})) for of in versions.values() for r in of)
        yield element("tr", element("th", name, scope="row"), *cells)
    yield "</tbody></table></div>\n"


def text() -> str:
    """Return the page."""
    results = [r for r in load_all() if r.kernels]
    where = dict.fromkeys(
        f"- oneDNN {r.version} ({r.runtime}): {s.cpu}, {s.threads} threads, {s.date}"
        for r in results
        for s in [r.sources["kernels"]]
    )
    lines = [HEAD + "\n".join(where) + "\n", KERNELS, *_map(results, _kernels_cell)]
    lines += [GAINS, *_map(results, _gains_cell)]
    return "\n".join(lines).rstrip() + "\n"

"""The documentation's page of kernels and speed, made of what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from doc_pages import anchor

from gallery import PATTERNS
from onednn_graph_py.base.text.table import Markup, element

from . import ROOT
from .results import Result, load_all

__all__ = ["PAGE", "text"]

PAGE = ROOT / "docs" / "onednn_kernels.md"

HEAD = """\
---
hide-toc: true
---

# Kernels and speed by version and instruction set

These maps show whether each pattern that oneDNN documents runs a reference kernel, and what fusion
gains. They are for anyone who chooses a version, or who wants to know what a CPU with fewer
instructions costs. One case of the [gallery](patterns.md) stands for each pattern and data type.
The cases are small, so large shapes may run other kernels. `./dev matrix` measured them with oneDNN
held to one instruction set after the other:

"""

KERNELS = """\
## Kernels

✓: no measured data type runs a reference kernel. A reference kernel has `ref` in its name and is
plain C++, not made for speed. ○ n/m: n of m data types run one. Empty: oneDNN does not run the
pattern there, or it was not measured. Hover over a cell to see the kernels.
"""

GAINS = """\
## Gains

The time with one op per partition, divided by the time as models compile it (geometric mean over a
pattern's data types). Above 1, fusion gains. Times of single small calls vary by some 10 %.
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


def _by_version(results: list[Result]) -> dict[str, list[Result]]:
    versions: dict[str, list[Result]] = {}
    for r in results:
        versions.setdefault(f"{r.version} {r.runtime}", []).append(r)
    return versions


def _maps(
    what: str, results: list[Result], cell: Callable[[dict[str, Any]], Markup]
) -> Iterator[str]:
    """Return the lines of the maps of all versions, each below a heading."""
    for version, of in _by_version(results).items():
        yield f"### {what} with {version}\n"
        yield from _map(of, cell)


def _map(results: list[Result], cell: Callable[[dict[str, Any]], Markup]) -> Iterator[str]:
    """Return the lines of a map: a row for each pattern, a column for each instruction set."""
    yield '<div class="heat-map versions" tabindex="0"><table><thead>'
    names = (element("th", r.isa, scope="col") for r in results)
    yield element("tr", element("th", "pattern", scope="col"), *names)
    yield "</thead><tbody>"
    for pattern in PATTERNS.values():
        if not any(pattern.id in r.kernels for r in results):
            continue
        name = f"{pattern.id} {pattern.name.replace('_', ' ')}"
        cells = (cell(r.kernels.get(pattern.id, {})) for r in results)
        yield element("tr", element("th", name, scope="row"), *cells)
    yield "</tbody></table></div>\n"


def _index(versions: Iterable[str]) -> Iterator[str]:
    for what in ("Kernels", "Gains"):
        links = (f"[{v}](#{anchor(f'{what} with {v}')})" for v in versions)
        yield f"{what}: {', '.join(links)}.\n"


def text() -> str:
    """Return the page."""
    results = [r for r in load_all() if r.kernels]
    where = dict.fromkeys(
        f"- oneDNN {r.version} ({r.runtime}): {s.cpu}, {s.threads} threads, {s.date}"
        for r in results
        for s in [r.sources["kernels"]]
    )
    lines = [HEAD + "\n".join(where) + "\n", *_index(_by_version(results))]
    lines += [KERNELS, *_maps("Kernels", results, _kernels_cell)]
    lines += [GAINS, *_maps("Gains", results, _gains_cell)]
    return "\n".join(lines).rstrip() + "\n"

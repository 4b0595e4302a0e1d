"""The documentation's page of wrong results, made of what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wrong_cases import ROWS, row_of

import onednn_graph_py as og

from .programs import titles
from .results import Result, load_all

__all__ = ["PAGE", "graph_file", "text", "write"]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "onednn_defects.md"

HEAD = """\
# Where oneDNN computes wrong numbers

Each entry is a partition that oneDNN fuses and computes wrong without saying so. Models avoid all
of them ([how](guide_models.md)); `compile(known_defects="run")` runs them all the same.

The tables are measured: each graph is a C++ program that also holds the right numbers, by the
reference in NumPy, and runs against oneDNN alone, held to one instruction set after the other.
**wrong** means that elements were wrong, **right** that none was, **refused** that oneDNN has no
kernel there, **crashed** and **hung** what they say. An entry with several graphs has the worst.
Each graph is called twice, and memory that oneDNN takes is filled with other numbers before
(`MALLOC_PERTURB_=165`), since some results depend on it.
Some entries depend on how threads share memory, and show only sometimes.

To see one yourself, take its file from `docs/data/defects/` of the source tree:

```sh
python -m onednn_graph_py export FILE.json --to cpp-check -o program.cpp
c++ -std=c++17 -O2 program.cpp -o program -ldnnl
ONEDNN_MAX_CPU_ISA=AVX2 ./program    # exit status 4 if a number is wrong
```

`docs/reports/` of the source tree has some of them in the form of oneDNN's issue template.

"""

WORST = ("crashed", "hung", "wrong", "refused", "right")


def graph_file(row: str) -> Path:
    """Return the file of a row's first graph."""
    return DOCS / "data" / "defects" / f"{row.replace(' ', '_').replace(chr(39), '')}.json"


def _word(outcomes: list[str]) -> str:
    """Return the worst of a row's outcomes."""
    words = {o.partition(":")[0] for o in outcomes}
    return next((w for w in WORST if w in words), "")


def _table(row: str, results: list[Result]) -> Iterator[str]:
    """Return the lines of a table of versions and instruction sets."""
    columns = list(dict.fromkeys((r.version, r.runtime) for r in results))
    isas = list(dict.fromkeys(r.isa for r in sorted(results, key=lambda r: r.rank)))
    yield "| | " + " | ".join(f"{v} {runtime}" for v, runtime in columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    at = {(r.version, r.runtime, r.isa): r.defects.get(row, []) for r in results}
    for isa in isas:
        cells = [_word(at.get((*c, isa), [])) for c in columns]
        yield f"| {isa} | " + " | ".join("**wrong**" if c == "wrong" else c for c in cells) + " |"


def _section(row: str, what: str, results: list[Result]) -> Iterator[str]:
    defect = row_of(row)
    yield f"## {what}\n"
    yield from _table(row, results)
    seen = [
        (r, o) for r in reversed(results) for o in r.defects.get(row, []) if o.startswith("wrong: ")
    ]
    if seen:
        r, outcome = seen[0]
        yield f"\nWith {r.version} and {r.isa}, {outcome.removeprefix('wrong: ')}."
    else:
        yield "\nNo call of those measured showed it."
    if ROWS[row].hidden:
        yield f"It is not always seen: {ROWS[row].hidden}."
    apart = (
        "An op alone is wrong too, so the reference computes it."
        if defect.alone
        else ("Its ops alone are right, so models run them apart.")
    )
    yield apart
    yield f"Graph: `{graph_file(row).relative_to(DOCS.parent)}`.\n"


def text() -> str:
    """Return the page."""
    results = list(load_all())
    lines = [HEAD, "## Measured\n"]
    lines.append("| oneDNN | instruction sets | CPU | date |")
    lines.append("| --- | --- | --- | --- |")
    groups: dict[tuple[str, ...], list[str]] = {}
    for r in results:
        groups.setdefault((f"{r.version} {r.runtime}", r.cpu, r.date), []).append(r.isa)
    lines += [f"| {v} | {', '.join(isas)} | {cpu} | {d} |" for (v, cpu, d), isas in groups.items()]
    lines.append("")
    for row, what in titles().items():
        lines += _section(row, what, results)
    return "\n".join(lines).rstrip() + "\n"


def write() -> None:
    """Write the page and the graphs; some rows have none that an older oneDNN takes."""
    for row in titles():
        if not ROWS[row].met:
            continue
        b = og.GraphBuilder()
        ROWS[row].met[0](b)
        path = graph_file(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        b.save(path)
    PAGE.write_text(text(), encoding="utf-8")

"""The documentation's page of wrong results, made of what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import memory_cases
from wrong_cases import ROWS, row_of

import onednn_graph_py as og
from onednn_graph_py.text.table import markdown_table

from .programs import memory_titles, titles
from .results import OUTCOMES, Result, load_all

__all__ = ["PAGE", "graph_file", "text", "write_graphs"]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "onednn_defects.md"

HEAD = """\
# Where oneDNN computes wrong numbers, or crashes

Each entry but those of the [last part](#out-of-bounds) is a partition that oneDNN fuses and
computes wrong without saying so. Models avoid all of them ([how](guide_models.md));
`compile(known_defects="run")` runs them all the same, but for those that also leave their buffers.

The tables are measured: each graph is a C++ program that also holds the right numbers, by the
reference in NumPy, and runs against oneDNN alone, held to one instruction set after the other.
**wrong** means that elements were wrong, **right** that none was, **refused** that oneDNN has no
kernel there, **crashed** and **hung** what they say. An entry with several graphs has the worst.
Each graph is called twice, and memory that oneDNN takes is filled with other numbers before
(`MALLOC_PERTURB_=165`), since some results depend on it. Tensors lie between pages that can't be
read, so **crashed** may also be a read or a write beside one.
Some entries depend on how threads share memory, and show only sometimes.

To see one yourself, take its file from `docs/data/defects/` of the source tree:

```sh
python -m onednn_graph_py export FILE.json --to cpp-check -o program.cpp
c++ -std=c++17 -O2 program.cpp -o program -ldnnl
ONEDNN_MAX_CPU_ISA=AVX2 ./program    # exit status 4 if a number is wrong
```

`docs/reports/` of the source tree has some of them in the form of oneDNN's issue template.

"""

MEMORY = """\
(out-of-bounds)=
## Out of bounds

With these partitions oneDNN reads or writes beside its buffers, or crashes. The mirror and models
refuse them with `KnownDefectError`. The programs are like those above, so their tensors lie between
pages that can't be read: **crashed** may be such a read. **right** means that no number was wrong
and no such page was touched; what is read beside a tensor within a page, or beside memory of
oneDNN's own, is not seen.

"""

CASES = """\
## Documented patterns and random graphs

The cases of all documented [patterns](patterns.md) that oneDNN makes the documented partitions of,
and what became of random graphs of `selftest`. **right** and **wrong**: the model, by the reference
in NumPy. **avoided**: oneDNN alone is wrong or crashes, and the model is not. **refused**: oneDNN
runs no such graph. **slow**: the model takes more than 1.2 times as long as its ops apart.

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
        (r, outcome)
        for shown in ("wrong: ", "crashed: ")
        for r in reversed(results)
        for outcome in r.defects.get(row, [])
        if outcome.startswith(shown)
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
    if defect.out_of_bounds:
        yield "It also reads or writes beside its tensors, so the mirror refuses it."
    yield f"Graph: `{graph_file(row).relative_to(DOCS.parent)}`."
    shown = benchdnn_that_fails(row, results)
    if shown is not None:
        yield f"benchdnn, oneDNN's test driver, shows it too:\n\n```sh\n{shown}\n```"
    yield ""


def benchdnn_that_fails(row: str, results: list[Result], case: str = "") -> str | None:
    """Return the command of oneDNN's own test driver that fails where the program does, too.

    Parameters
    ----------
    row : str
    results : list of Result
    case : str
        The graph's file; without it the one in the source tree.
    """
    for r in reversed(results):
        said = r.benchdnn.get(row, "")
        outcomes = [r.memory[row]] if row in r.memory else r.defects.get(row, [""])[:1]
        if said.startswith(("FAILED", "CRASHED")) and outcomes[0].startswith(("wrong", "crashed")):
            return (
                f"# {r.version}: {said}\n"
                f"ONEDNN_MAX_CPU_ISA={r.isa.upper()} benchdnn --graph --expected-n-partitions=0 "
                f"--case={case or graph_file(row).relative_to(DOCS.parent)}"
            )
    return None


def _by_isa(outcomes: dict[str, str]) -> str:
    """Return the outcomes of a row with one version, by instruction set."""
    isas: dict[str, list[str]] = {}
    for isa, outcome in outcomes.items():
        isas.setdefault(outcome.partition(":")[0], []).append(isa)
    if len(isas) == 1:
        return next(iter(isas))
    return "; ".join(f"{word}: {', '.join(isas[word])}" for word in WORST if word in isas)


def _memory(results: list[Result]) -> Iterator[str]:
    """Return the part about `safety.out_of_bounds`."""
    versions: dict[str, list[Result]] = {}
    for r in results:
        if r.memory:
            versions.setdefault(f"{r.version} {r.runtime}", []).append(r)
    yield MEMORY
    rows = [
        (f"{what} ([graph](data/defects/{name}.json))", *_cells(name, versions.values()))
        for name, what in memory_titles().items()
    ]
    yield from markdown_table(("what", *versions), rows)
    shown = [c for name in memory_titles() if (c := benchdnn_that_fails(name, results)) is not None]
    if shown:
        yield "\nbenchdnn, oneDNN's test driver, shows some of them too:\n\n```sh"
        yield from shown
        yield "```"


def _cells(name: str, versions: Iterable[list[Result]]) -> Iterator[str]:
    for of in versions:
        yield _by_isa({r.isa: r.memory[name] for r in of if name in r.memory})


def _counts(entries: Iterable[dict[str, int]]) -> Counter[str]:
    return sum(map(Counter, entries), Counter())


def _cases(results: list[Result]) -> Iterator[str]:
    """Return the part about documented patterns and random graphs."""
    rows = []
    for r in results:
        patterns, graphs = (_counts(x.values()) for x in (r.patterns, r.selftest))
        if patterns or graphs:
            fused = f"{patterns['fused']} of {patterns.total()}" if patterns else ""
            told = (str(graphs[o]) if graphs else "" for o in OUTCOMES)
            rows.append((f"{r.version} {r.runtime}", r.isa, fused, *told))
    if rows:
        yield CASES
        yield from markdown_table(("oneDNN", "instruction set", "fused", *OUTCOMES), rows)
        yield ""


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
    lines += _cases(results)
    for row, what in titles().items():
        lines += _section(row, what, results)
    lines += _memory(results)
    return "\n".join(lines).rstrip() + "\n"


def write_graphs() -> None:
    """Write the graphs that the page names; some rows have none that an older oneDNN takes."""
    made = {}
    for row in titles():
        if ROWS[row].met:
            made[row] = og.GraphBuilder()
            ROWS[row].met[0](made[row])
    for name, case in memory_cases.ROWS.items():
        with suppress(og.UnimplementedError):
            made[name] = memory_cases.builder_of(case.wrong)
    for row, b in made.items():
        path = graph_file(row)
        path.parent.mkdir(parents=True, exist_ok=True)
        b.to_benchdnn(path)

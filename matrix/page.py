"""The documentation's page of wrong results, made of what was measured."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import memory_cases
from wrong_cases import ROWS, group

import onednn_graph_py as og
from gallery.markdown import markdown_table
from onednn_graph_py import serialization
from onednn_graph_py.base.text.table import Markup
from onednn_graph_py.safety.defect import OUT_OF_BOUNDS, REFUSED, WRONG, Defect
from onednn_graph_py.safety.group import Group
from onednn_graph_py.safety.table import DEFECTS, of_effect
from onednn_graph_py.serialization import GraphDocument

from . import ROOT
from .programs import memory_titles, titles
from .results import OUTCOMES, Result, load_all

__all__ = [
    "PAGE",
    "cause",
    "graph_file",
    "is_bad",
    "is_kept",
    "own_outcomes",
    "text",
    "write_graphs",
]

DOCS = ROOT / "docs"
PAGE = DOCS / "onednn_defects.md"

HEAD = """\
# Where oneDNN computes wrong numbers, or crashes

This page is for people who work on oneDNN or rely on it. The [index](#index) lists all entries.
Each has one to five graphs that oneDNN takes as one partition and computes wrong without an error,
or with which it reads or writes out of bounds or crashes. Models avoid all of them
([how](guide_models.md#compiling)), and their warnings and errors end with the name of an entry,
such as `[wide_operand_behind_pooling]`. `compile(known_defects="run")` runs them all the same, but
for those that also read or write out of bounds.

The tables are measured: each graph is a C++ program that also holds the right numbers, computed by
the reference in NumPy. It runs against oneDNN alone, held to one instruction set after the other
(`ONEDNN_MAX_CPU_ISA`). A cell has the worst outcome of an entry's graphs:

- **wrong**: elements were wrong; **crashed** or **hung**: the program did;
- **right**: no element was wrong;
- refused: oneDNN finds no partition that it supports, or fails with an error;
- a name in parentheses: the outcome was bad, but by the defect of that entry;
- empty: not measured.

Each graph is called twice, and memory that oneDNN takes is filled with other numbers before
(`MALLOC_PERTURB_`), since some results depend on it. Tensors lie between pages that can't be read,
so **crashed** may also be a read or a write out of bounds. Some entries depend on how threads share
memory, and show only sometimes. In a source tree, this prints, builds and runs the program of an
entry's first graph, here with a system's oneDNN (ours is `-ldnnl_ogp`, below
`~/.cache/onednn_graph_py`):

```sh
./dev matrix --program wide_operand_behind_pooling > program.cpp
c++ -std=c++17 -O2 program.cpp -o program -ldnnl
export MALLOC_PERTURB_=165 MALLOC_MMAP_THRESHOLD_=1000000000
ONEDNN_MAX_CPU_ISA=AVX2 ./program    # exit status 4 if a number is wrong
```

The graphs that the entries link, each entry's first, are files of oneDNN's own format, without the
values of constants.
`docs/reports/` of the source tree has some entries in the form of oneDNN's issue template.

"""

MEMORY = """\
(out-of-bounds)=
## Out of bounds

With these partitions oneDNN reads or writes out of bounds, or crashes. The mirror refuses them
with `KnownDefectError`. Models split them, write their ops in another way, or compute them in
NumPy. The programs are like those above, so their tensors lie between pages that can't be read:
**crashed** may be such a read. **right** means that no number was wrong and no such page was
touched; reads that stay within a page, or around oneDNN's own memory, are not seen.
An outcome without instruction sets is that of all that were measured with any version. Where no
outcome shows a defect, the entry says how it is known.

"""

CASES = """\
## Documented patterns and random graphs

**fused**: the cases of documented [patterns](patterns.md) for which oneDNN makes the documented
partitions, out of those that this version and instruction set can run. The other columns count
random graphs of `selftest`. **right** and **wrong**: the model, against the reference in NumPy.
**avoided**: oneDNN alone is wrong or crashes, and the model is not. **refused**: oneDNN runs no
such graph. **slow**: the model takes more than 1.2 times as long as its separate ops.

"""

BAD = ("crashed", "hung", "wrong")
OTHERS = ("lacks hardware", "needs newer oneDNN")
"""Verdicts of patterns that can't run here."""

WORST = (*BAD, "refused", "right")

SECTIONS = {
    "defects": "wrong results",
    "memory": "out of bounds",
    "benchdnn": "benchdnn",
    "patterns": "patterns",
    "selftest": "random graphs",
    "kernels": "kernels and speed",
}
"""The sections of a result as readers know them."""


TITLES = {
    "int8_products_without_vnni": "oneDNN saturates int8 products at 16 bits on CPUs without VNNI"
}
"""Titles of rows whose text is about the user's CPU."""

SATURATION = DEFECTS["int8_products_without_vnni"]
_AVOIDED = (*of_effect(WRONG), *of_effect(REFUSED))


def graph_file(row: str) -> Path:
    """Return the file of a row's first graph."""
    return DOCS / "data" / "defects" / f"{row}.json"


def is_bad(outcome: str) -> bool:
    """Whether an outcome is anything but right and refused."""
    return outcome.startswith(BAD)


@cache
def _groups(row: str) -> list[Group]:
    return [group(build) for build in ROWS[row].met]


def cause(row: str, number: int, result: Result) -> str | None:
    """Return the name of the row by which a bad outcome of one of a row's graphs is explained.

    It is the row itself wherever it holds, unless products saturate; None if no row explains the
    outcome.
    """
    # The linked oneDNN may lack the ops of a row's last graphs.
    if number >= len(_groups(row)):
        return row
    if _saturates(row, number, result):
        return SATURATION.name
    made, where = _groups(row)[number], result.conditions
    return next(
        (d.name for d in (DEFECTS[row], *_AVOIDED) if d.find(made, where) is not None), None
    )


def _saturates(row: str, number: int, result: Result) -> bool:
    """Whether products that saturate explain an outcome: it is the same where the row ends."""
    if SATURATION.find(_groups(row)[number], result.conditions) is None:
        return False
    outcome = result.defects[row][number]
    return any(
        outcome in other.defects.get(row, ()) and not DEFECTS[row].is_in(other.conditions)
        for other in _all()
    )


@cache
def _all() -> tuple[Result, ...]:
    return tuple(load_all())


def own_outcomes(row: str, result: Result) -> Iterator[str]:
    """Yield a row's outcomes, without those bad ones that other rows explain."""
    if row in result.memory:
        yield result.memory[row]
    for number, outcome in enumerate(result.defects.get(row, ())):
        if not is_bad(outcome) or cause(row, number, result) == row:
            yield outcome


def _word(outcomes: Iterable[str]) -> str:
    """Return the worst of outcomes."""
    words = {o.partition(":")[0] for o in outcomes}
    return next((w for w in WORST if w in words), "")


def _cell(row: str, result: Result | None) -> str:
    if result is None or row not in result.defects:
        return ""
    word = _word(own_outcomes(row, result))
    if word in BAD:
        return f"**{word}**"
    for number, outcome in enumerate(result.defects[row]):
        other = cause(row, number, result) if is_bad(outcome) else None
        if other is not None and other != row:
            return f"({other})"
    return word


def _table(row: str, results: list[Result]) -> Iterator[str]:
    """Return the lines of a table of versions and instruction sets."""
    columns = _columns(results)
    isas = dict.fromkeys(r.isa for r in sorted(results, key=lambda r: r.rank))
    at = {(r.version, r.runtime, r.isa): r for r in results}
    # Not by `markdown_table`, which would show asterisks as such.
    for cells in (
        ["", *map(" ".join, columns)],
        ["---"] * (len(columns) + 1),
        *([isa, *(_cell(row, at.get((*c, isa))) for c in columns)] for isa in isas),
    ):
        yield f"| {' | '.join(cells)} |"


def _columns(results: list[Result]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((r.version, r.runtime) for r in results))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _guarded(defect: Defect) -> str:
    """Return in which conditions models avoid something, to continue "with"."""
    return "; or ".join(map(str, defect.where))


def _link(name: str) -> Markup:
    """Return a link to an entry, whose name may go on in the next line."""
    return Markup(f"[{name.replace('_', '_<wbr>')}](#{name})")


def _index(results: list[Result]) -> Iterator[str]:
    """Return the list of entries, each a link."""
    rows = []
    for row, what in titles().items():
        bad, measured = _versions(row, results)
        every = bool(bad) and set(bad) == set(measured)
        none = "none measured" if measured else "not measured"
        seen = "all measured" if every else ", ".join(bad) or none
        rows.append((_link(row), _title(row, what), seen))
    yield "## Index\n"
    yield from markdown_table(("entry", "what is wrong", "oneDNN"), rows)
    yield "\nOut of bounds:\n"
    entries = ((_link(name), what) for name, what in memory_titles().items())
    yield from markdown_table(("entry", "what reads or writes out of bounds, or crashes"), entries)
    yield ""


def _title(row: str, what: str) -> str:
    return TITLES.get(row, what)


def _versions(row: str, results: list[Result]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the instruction sets that showed a row, and those that were measured, by version."""
    bad: dict[str, set[str]] = {}
    measured: dict[str, set[str]] = {}
    for r in results:
        if row in r.defects:
            column = f"{r.version} {r.runtime}"
            measured.setdefault(column, set()).add(r.isa)
            if any(map(is_bad, own_outcomes(row, r))):
                bad.setdefault(column, set()).add(r.isa)
    return bad, measured


def _seen(row: str, results: list[Result]) -> Iterator[str]:
    """Yield sentences about the versions that showed a row, and one of the outcomes."""
    bad, measured = _versions(row, results)
    if not measured:
        yield "No program of it was measured yet."
    elif not bad:
        yield "No call of those measured showed it."
    else:
        isas = set().union(*bad.values())
        others = [c for c, of in measured.items() if c not in bad and of & isas]
        missing = [c for c, of in measured.items() if c not in bad and not of & isas]
        beside = f"; not with {_listed(others)}" if others else ""
        yield f"Seen with {_listed(list(bad))}{beside}."
        if missing:
            were = "was" if len(missing) == 1 else "were"
            yield f"{_listed(missing)} {were} not measured with an instruction set that shows it."
    for word in ("wrong: ", "crashed: "):
        found = [
            (r, o) for r in reversed(results) for o in own_outcomes(row, r) if o.startswith(word)
        ]
        if found:
            r, outcome = found[0]
            yield f"With {r.version} {r.runtime} and {r.isa}, {outcome.removeprefix('wrong: ')}."
            return


def _section(row: str, what: str, results: list[Result]) -> Iterator[str]:
    defect = DEFECTS[row]
    yield f"## {row}\n"
    yield f"{_title(row, what)}.\n"
    if any(row in r.defects for r in results):
        yield from _table(row, results)
        yield ""
    yield from _seen(row, results)
    if ROWS[row].hidden:
        yield ROWS[row].hidden
    if defect.needs.fused:
        done = "Its ops alone are right, so models split them"
    elif set(ROWS[row].met) == set(ROWS[row].alone):
        done = (
            "The op alone is wrong too, so models write it in another way, or compute it in NumPy"
        )
    else:
        done = (
            "Some of these ops alone are wrong too; models write those in another way, or compute "
            "them in NumPy, and run the others separately"
        )
    yield f"{done}, with {_guarded(defect)}."
    if OUT_OF_BOUNDS in defect.effect:
        yield "It also reads or writes out of bounds, so the mirror refuses it."
    yield f"[Graph](data/defects/{graph_file(row).name})."
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
        bad = r.memory.get(row, "")
        if row in r.defects and cause(row, 0, r) == row:
            bad = r.defects[row][0]
        if said.startswith(("FAILED", "CRASHED")) and is_bad(bad):
            return (
                f"# {r.version}: {said}\n"
                f"ONEDNN_MAX_CPU_ISA={r.isa.upper()} benchdnn --graph --expected-n-partitions=0 "
                f"--case={case or graph_file(row).relative_to(DOCS.parent)}"
            )
    return None


def _by_isa(outcomes: dict[str, str], expected: set[str]) -> str:
    """Return the outcomes of a row with one version, by instruction set."""
    isas: dict[str, list[str]] = {}
    for isa, outcome in outcomes.items():
        isas.setdefault(outcome.partition(":")[0], []).append(isa)
    if len(isas) == 1 and expected <= set(outcomes):
        return next(iter(isas))
    return "; ".join(f"{word}: {', '.join(isas[word])}" for word in WORST if word in isas)


def _memory(results: list[Result]) -> Iterator[str]:
    """Return the part about what the mirror refuses."""
    versions: dict[str, list[Result]] = {}
    for r in results:
        if r.memory:
            versions.setdefault(f"{r.version} {r.runtime}", []).append(r)
    yield MEMORY
    for name, what in memory_titles().items():
        known = memory_cases.ROWS[name].known
        yield f"### {name}\n"
        yield f"{what[0].upper()}{what[1:]}"
        yield f"Models avoid it with {_guarded(DEFECTS[name])}."
        yield f"[Graph](data/defects/{name}.json)."
        if known:
            yield known
        expected = {r.isa for of in versions.values() for r in of}
        cells = [
            (column, _by_isa(outcomes, expected))
            for column, of in versions.items()
            if (outcomes := _outcomes(name, of))
        ]
        if cells:
            yield ""
            yield from markdown_table(("oneDNN", "outcome"), cells)
        shown = benchdnn_that_fails(name, results)
        if shown is not None:
            yield f"\nbenchdnn shows it too:\n\n```sh\n{shown}\n```"
        yield ""


def _outcomes(name: str, of: list[Result]) -> dict[str, str]:
    return {r.isa: r.memory[name] for r in of if name in r.memory}


def _counts(entries: Iterable[dict[str, int]]) -> Counter[str]:
    return sum(map(Counter, entries), Counter())


def _cases(results: list[Result]) -> Iterator[str]:
    """Return the part about documented patterns and random graphs."""
    rows = []
    for r in results:
        patterns, graphs = (_counts(x.values()) for x in (r.patterns, r.selftest))
        if patterns or graphs:
            possible = patterns.total() - sum(patterns[verdict] for verdict in OTHERS)
            fused = f"{patterns['fused']} of {possible}" if patterns else ""
            told = (str(graphs[o]) if graphs else "" for o in OUTCOMES)
            rows.append((f"{r.version} {r.runtime}", r.isa, fused, *told))
    if rows:
        yield CASES
        yield from markdown_table(("oneDNN", "instruction set", "fused", *OUTCOMES), rows)
        yield ""


def _measured(results: list[Result]) -> Iterator[str]:
    """Return the part about where and when what was measured."""
    isas: dict[tuple[str, ...], list[str]] = {}
    for r in results:
        sections: dict[tuple[str, str], list[str]] = {}
        for section, name in SECTIONS.items():
            if section in r.sources:
                source = r.sources[section]
                sections.setdefault((source.cpu, source.date), []).append(name)
        for (cpu, date), names in sections.items():
            isas.setdefault((f"{r.version} {r.runtime}", ", ".join(names), cpu, date), []).append(
                r.isa
            )
    rows = [(v, what, ", ".join(of), cpu, date) for (v, what, cpu, date), of in isas.items()]
    yield "## Measured\n"
    yield from markdown_table(("oneDNN", "what", "instruction sets", "CPU", "date"), rows)
    yield ""


def text() -> str:
    """Return the page."""
    results = list(load_all())
    lines = [HEAD.rstrip(), ""]
    lines += _index(results)
    lines += _measured(results)
    lines += _cases(results)
    for row, what in titles().items():
        lines += _section(row, what, results)
    lines += _memory(results)
    return "\n".join(lines).rstrip() + "\n"


def is_kept(row: str, document: GraphDocument) -> bool:
    """Whether a row's file has this graph, maybe written with another version of oneDNN."""
    path = graph_file(row)
    if not path.exists():
        return False
    kept = serialization.parse(path.read_text(encoding="utf-8"))
    return replace(kept, version=document.version) == document


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
        with TemporaryDirectory() as folder:
            written = Path(folder) / "graph.json"
            b.to_benchdnn(written)
            if not is_kept(row, serialization.parse(written)):
                shutil.copy(written, path)

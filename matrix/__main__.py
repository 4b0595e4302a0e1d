"""The command: measure this oneDNN, or write the pages."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.safety.table import DEFECTS

from . import ROOT, benchdnn, documents_page, kernels_page, page, reports, where
from .measuring import SECTIONS, TIMED, How, measure
from .programs import COMPILER, HEADERS, Program, memory_programs, programs
from .results import Result, load_all

FOLDER = ROOT / "build" / "matrix"
"""Where programs are built, and kept for the next time."""

PAGES = (page, kernels_page, documents_page)


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="./dev matrix", description=__doc__)
    parser.add_argument("isas", nargs="*", help="the instruction sets to hold oneDNN to")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="measure only this")
    parser.add_argument("--again", action="store_true", help="also measure what there is already")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the pages anew")
    parser.add_argument(
        "--reports",
        action="store_true",
        help="measure nothing, write the reports of what shows here",
    )
    parser.add_argument(
        "--minutes", type=float, default=0.75, help="for random graphs (default: %(default)s)"
    )
    parser.add_argument(
        "--program", metavar="NAME", help="measure nothing, print the C++ program of an entry"
    )
    parser.add_argument(
        "--where",
        metavar="NAME",
        choices=DEFECTS,
        help="measure nothing, compare an entry's conditions with the measurements",
    )
    arguments = parser.parse_intermixed_args()
    if arguments.where:
        print(where.report(arguments.where))
        return 0
    if arguments.program:
        return _print_program(arguments.program)
    if arguments.reports:
        for path in reports.write(FOLDER):
            print(f"wrote {path}")
        return 0
    if not arguments.page:
        if COMPILER is None or HEADERS is None:
            print("./dev matrix: it needs a C++ compiler and oneDNN's headers", file=sys.stderr)
            return 2
        sections = arguments.only or list(SECTIONS)
        if benchdnn.driver(build="benchdnn" in (arguments.only or ())) is None:
            sections = [s for s in sections if s != "benchdnn"]
        _measure(arguments.isas, sections, arguments.minutes, arguments.again)
    page.write_graphs()
    for made in PAGES:
        made.PAGE.write_text(made.text(), encoding="utf-8")
        print(f"wrote {made.PAGE}")
    return 0


def _print_program(name: str) -> int:
    """Print the first program of a row."""
    found = {p.row: p for p in (*memory_programs(), *programs(first_only=True))}
    if name not in found:
        print(
            f"./dev matrix: this oneDNN has no program for {name!r}; it has them for: "
            f"{', '.join(sorted(found))}",
            file=sys.stderr,
        )
        return 2
    print(found[name].source, end="")
    return 0


def _is_complete(result: Result, section: str, made: dict[str, list[Program]]) -> bool:
    """Whether a section has been measured, with all rows that there are by now."""
    kept = getattr(result, section)
    if section == "defects":
        rows = Counter(p.row for p in made[section])
        return all(len(kept.get(row, ())) == number for row, number in rows.items())
    if section == "memory":
        return all(p.row in kept for p in made[section])
    return bool(kept)


def _measure(isas: list[str], sections: list[str], minutes: float, again: bool) -> None:
    """Measure what is not there yet."""
    start = time.monotonic()
    version, runtime = "{major}.{minor}.{patch}".format(**og.version()), current().runtime

    def say(what: str) -> None:
        print(f"[{time.monotonic() - start:6.0f} s] {version} {what}", flush=True)

    made = {"defects": list(programs()), "memory": list(memory_programs())}
    there = {r.isa: r for r in load_all() if (r.version, r.runtime) == (version, runtime)}

    def is_missing(isa: str, section: str) -> bool:
        return again or isa not in there or not _is_complete(there[isa], section, made)

    missing = {isa: [s for s in sections if is_missing(isa, s)] for isa in isas}
    missing = {isa: left for isa, left in missing.items() if left}
    built: dict[str, list[tuple[Program, Path]]] = {section: [] for section in made}
    for section, of in made.items():
        if any(section in left for left in missing.values()):
            say(f"{section}: building a program for each row")
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                paths = pool.map(lambda p: p.build(FOLDER), of)
                built[section] = list(zip(of, paths, strict=True))
    how = How(built["defects"], built["memory"], minutes)

    def measure_some(isa: str, chosen: Callable[[str], bool]) -> None:
        measure(isa, filter(chosen, missing[isa]), how, lambda what: say(f"{isa}: {what}"))

    # Several side by side, as little of it keeps all cores busy; then one by one what is timed.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(measure_some, isa, lambda s: s not in TIMED) for isa in missing]:
            done.result()
    for isa in missing:
        measure_some(isa, TIMED.__contains__)
    say("is measured; --again measures anew")


if __name__ == "__main__":
    sys.exit(main())

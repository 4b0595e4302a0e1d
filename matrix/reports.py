"""Reports in the form that oneDNN's issue template asks for, each complete by itself: `write`."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.machine.store import processor
from onednn_recipe import pins

from . import ROOT
from .page import benchdnn_that_fails, cause, graph_file, is_bad
from .programs import (
    COMPILER,
    DIRTY,
    LIBRARY,
    Program,
    memory_programs,
    memory_titles,
    programs,
    titles,
)
from .results import Result, load_all

__all__ = ["FOLDER", "WORST", "report_file", "reported", "write"]

FOLDER = ROOT / "docs" / "reports"

WORST = (
    "operand_of_shared_weights",
    "strided_weights_of_one_row",
    "channel_operand_of_strided",
    "operand_of_one_column",
    "strided_scales_of_groups",
    "wide_operand_behind_pooling",
    "auto_pad_of_transposed_gradients",
    "dilated_transposed_gradients",
    "second_channel_operand",
    "narrow_statistics",
)
"""The rows that are reported, chosen by hand: those that the newest version shows in most elements,
with all or almost all instruction sets, and in graphs that programs have."""

LOADED = ("onednn_verbose,v1,info,oneDNN", "onednn_verbose,v1,info,cpu", "onednn_verbose,v1,graph")


def report_file(row: str) -> Path:
    """Return the file of a row's report."""
    return FOLDER / f"{row}.md"


def reported() -> Iterator[Program]:
    """Return the programs of the rows that are reported, which this oneDNN has the ops for."""
    return chain(programs(WORST, first_only=True), memory_programs(WORST))


def write(folder: Path) -> list[Path]:
    """Write the reports of what this oneDNN shows; others stay as they are.

    Parameters
    ----------
    folder : Path
        Where programs are built.
    """
    made = []
    for program in reported():
        text = _report(program, program.build(folder))
        if text is not None:
            path = report_file(program.row)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            made.append(path)
    return made


def _report(program: Program, built: Path) -> str | None:
    """Return a report; None if the program shows nothing here."""
    found = program.outcome(built)
    if not is_bad(found):
        return None
    # What crashes has no line of its execution.
    logged, event = ("profile", ",create:") if "crashed" in found else ("profile_exec", ",exec,")
    ran = subprocess.run(
        [built],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            **DIRTY,
            "ONEDNN_VERBOSE": logged,
            "LD_LIBRARY_PATH": str(LIBRARY.parent),
        },
    )
    said = [x for x in ran.stdout.splitlines() if x.startswith(LOADED) or event in x]
    printed = [x for x in ran.stdout.splitlines() if not x.startswith("onednn_verbose")]
    if ran.returncode < 0:
        printed.append(f"ended by {signal.Signals(-ran.returncode).name}")
    here = og.version()
    version = f"{here['major']}.{here['minor']}.{here['patch']}, {here['cpu_runtime']}"
    options = " ".join(f"-D{k}={v}" for k, v in pins.load().cmake_options.items())
    compiler = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True)
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    return _text(
        program,
        f"{version}, commit {here['hash']}",
        [
            f"- CPU: {_cpu()}",
            f"- OS: {system}, {platform.system()} {platform.release().split('-')[0]}, "
            f"{platform.machine()}",
            f"- compiler: {compiler.stdout.splitlines()[0]}",
            f"- oneDNN's CMake options: {options}",
        ],
        printed,
        f"With `ONEDNN_VERBOSE={logged}`:",
        said,
    )


def _text(
    program: Program,
    version: str,
    environment: list[str],
    printed: list[str],
    logged: str,
    said: list[str],
) -> str:
    results = list(load_all())
    lines = "\n".join
    return f"""\
# Summary

{_summary(program)}

# Version

{version}

The program below was measured with these versions and instruction sets (`ONEDNN_MAX_CPU_ISA`); no
newer commit was tried. It shows the fault with

{lines(_measured(program, results, True))}

and not with

{lines(_measured(program, results, False)) or "- none of those that were measured."}

# Environment

{lines(environment)}

# Steps to reproduce

Save the program below as `program.cpp`, then build and run it with the oneDNN installed in
`$PREFIX`. The command has the usual name of oneDNN's library; with the options above the name is
`dnnl_ogp`. The program fills the inputs, runs all partitions, and compares each element with what
it should be, which the program holds; its exit status is 4, unless it crashes. Each tensor ends or
begins at a page that can't be read, so a read or a write beside it ends the program. The variables
let glibc fill memory that is taken.

```sh
c++ -std=c++17 -O2 program.cpp -o program -I$PREFIX/include -L$PREFIX/lib \\
    -Wl,-rpath,$PREFIX/lib -ldnnl
{" ".join(f"{k}={v}" for k, v in DIRTY.items())} ./program
```

# Observed behavior

```text
{lines(printed)}
```

{logged}

```text
{lines(said)}
```

# Expected behavior

All elements should be within their tolerance, which follows from data type and accumulation length.
{_apart(program)}
{_with_benchdnn(program.row, results)}
# The program

```cpp
{program.source.rstrip()}
```
"""


def _measured(program: Program, results: list[Result], shown: bool) -> list[str]:
    """Return the versions and instruction sets that show a program's fault, or do not."""
    isas: dict[str, list[str]] = {}
    for r in results:
        measured = program.row in r.memory or program.row in r.defects
        if measured and _is_wrong(r, program) == shown:
            isas.setdefault(f"{r.version} {r.runtime}", []).append(r.isa)
    return [f"- {version}: {', '.join(of)}" for version, of in isas.items()]


def _summary(program: Program) -> str:
    if program.row in titles():
        # What follows a semicolon is advice for users.
        return f"{titles()[program.row].partition(';')[0]}."
    return f"oneDNN reads or writes out of bounds with {memory_titles()[program.row]}"


def _apart(program: Program) -> str:
    if program.row in memory_titles():
        return "oneDNN should stay within the tensors, or refuse the graph."
    ops = serialization.parse(graph_file(program.row)).graph
    if len(ops) == 1:
        return f"The graph has one op, {ops[0].kind}, so no fusion is involved."
    return "They are if each op is in a partition of its own (`partition::policy::debug`)."


def _with_benchdnn(row: str, results: list[Result]) -> str:
    """Return a section about benchdnn; nothing if it does not show it."""
    command = benchdnn_that_fails(row, results, "graph.json")
    if command is None:
        return ""
    graph = graph_file(row).read_text(encoding="utf-8").rstrip()
    return f"""
# benchdnn

```sh
{command}
```

`graph.json`:

```json
{graph}
```
"""


def _is_wrong(result: Result, program: Program) -> bool:
    if program.row in result.memory:
        return is_bad(result.memory[program.row])
    outcomes = result.defects.get(program.row, [])[:1]
    return any(map(is_bad, outcomes)) and cause(program.row, 0, result) == program.row


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = {x.partition("\t")[0]: x.partition(": ")[2] for x in lines[:30]}
    flags = [f for f in facts.get("flags", "").split() if f.startswith(("avx", "amx"))]
    return f"{processor()}; {' '.join(flags)}"

"""Reports in the form that oneDNN's issue template asks for, each complete by itself: `write`."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wrong_cases import row_of

import onednn_graph_py as og
from onednn_graph_py.machine.store import processor
from onednn_recipe import pins

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

FOLDER = Path(__file__).parents[2] / "docs" / "reports"

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
    return (p for p in (*programs(first_only=True), *memory_programs()) if p.row in WORST)


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
    results = list(load_all())
    seen: dict[str, list[str]] = {}
    for r in results:
        if _is_wrong(r, program):
            seen.setdefault(f"{r.version} {r.runtime}", []).append(r.isa)
    others = "\n".join(f"- {version}: {', '.join(isas)}" for version, isas in seen.items())
    options = " ".join(f"-D{k}={v}" for k, v in pins.load().cmake_options.items())
    compiler = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True)
    return f"""\
# Summary

{_summary(program.row)}

# Version

{here["major"]}.{here["minor"]}.{here["patch"]}, {here["cpu_runtime"]}, commit {here["hash"]}

The program below was measured to show it with these versions and instruction sets
(`ONEDNN_MAX_CPU_ISA`):

{others}

# Environment

- CPU: {_cpu()}
- OS: {platform.system()} {platform.release().split("-")[0]}, {platform.machine()}
- compiler: {compiler.stdout.splitlines()[0]}
- oneDNN's CMake options: {options}

# Steps to reproduce

Build and run the program below. It fills the inputs, runs all partitions, and compares each element
with what it should be, which the program holds; its exit status is 4, unless it crashes. Each
tensor ends or begins at a page that can't be read, so a read or a write beside it ends the program.
The variables let glibc fill memory that is taken.

```sh
c++ -std=c++17 -O2 program.cpp -o program -ldnnl
{" ".join(f"{k}={v}" for k, v in DIRTY.items())} ./program
```

# Observed behavior

```text
{chr(10).join(printed)}
```

With `ONEDNN_VERBOSE={logged}`:

```text
{chr(10).join(said)}
```

# Expected behavior

All elements should be within their tolerance, which follows from data type and accumulation length.
{_apart(program.row)}
{_with_benchdnn(program.row, results)}
# The program

```cpp
{program.source.rstrip()}
```
"""


def _summary(row: str) -> str:
    if row in titles():
        return titles()[row]
    return f"oneDNN reads or writes beside its buffers with {memory_titles()[row]}"


def _apart(row: str) -> str:
    if row in memory_titles():
        return "Nothing should be read or written beside the tensors."
    if row_of(row).alone:
        return "The graph has one op."
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

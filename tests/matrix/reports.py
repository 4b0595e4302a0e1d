"""Reports in the form that oneDNN's issue template asks for, each complete by itself: `write`."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
from pathlib import Path

from wrong_cases import row_of

import onednn_graph_py as og

from .programs import COMPILER, DIRTY, LIBRARY, Program, programs, titles
from .results import load_all

__all__ = ["FOLDER", "WORST", "report_file", "write"]

FOLDER = Path(__file__).parents[2] / "docs" / "reports"

WORST = (
    "product with 2-D weights",
    "weights of one row",
    "neither innermost nor next to the batch",
    "behind a product of one column",
    "ignores the strides of scales",
    "fused operand of more than one wide dim",
    "pads the gradients of transposed convolutions",
    "without its dilations",
    "varies along the last dim alone",
    "a second operand for each channel",
)
"""The rows that are reported: wrong with every instruction set, most elements, plain graphs."""

SHOWN = ("wrong", "crashed")

LOADED = ("onednn_verbose,v1,info,oneDNN", "onednn_verbose,v1,info,cpu", "onednn_verbose,v1,graph")


def report_file(row: str) -> Path:
    """Return the file of a row's report."""
    return FOLDER / f"{row.replace(' ', '_').replace(chr(39), '')}.md"


def write(folder: Path) -> list[Path]:
    """Write the reports of what this oneDNN shows; others stay as they are.

    Parameters
    ----------
    folder : Path
        Where programs are built.
    """
    made = []
    for program in programs(first_only=True):
        if program.row not in WORST:
            continue
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
    if not found.startswith(SHOWN):
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
    seen = sorted({f"{r.version} ({r.isa})" for r in load_all() if _is_wrong(r.defects, program)})
    defect = row_of(program.row)
    apart = (
        "The op alone is wrong too."
        if defect.alone
        else "They are if each op is in a partition of its own (`partition::policy::debug`)."
    )
    compiler = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True)
    return f"""\
# Summary

{titles()[program.row]}

# Version

{here["major"]}.{here["minor"]}.{here["patch"]}, {here["cpu_runtime"]}, commit {here["hash"]}

It was also measured to be wrong with: {", ".join(seen)}.

# Environment

- CPU: {_cpu()}
- OS: {platform.system()} {platform.release().split("-")[0]}, {platform.machine()}
- compiler: {compiler.stdout.splitlines()[0]}

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
{apart}

# The program

```cpp
{program.source.rstrip()}
```
"""


def _is_wrong(defects: dict[str, list[str]], program: Program) -> bool:
    return any(o.startswith(SHOWN) for o in defects.get(program.row, [])[:1])


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = {x.partition("\t")[0]: x.partition(": ")[2] for x in lines[:30]}
    flags = [f for f in facts.get("flags", "").split() if f.startswith(("avx", "amx"))]
    model = f"family {facts.get('cpu family')}, model {facts.get('model')}"
    return f"{facts.get('model name')} ({model}); {' '.join(flags)}"

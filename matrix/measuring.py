"""Measure what this oneDNN does with an instruction set: `measure`."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .programs import Program
from .results import OUTCOMES, Result, Source, load_all

__all__ = ["SECTIONS", "TIMED", "How", "measure"]


@dataclass(frozen=True)
class How:
    """What the sections need.

    Parameters
    ----------
    programs, memory_programs : sequence of tuple of Program and Path
        The programs of known wrong results and of what the mirror refuses, and where they were
        built.
    minutes : float
        Time for random graphs.
    """

    programs: Sequence[tuple[Program, Path]]
    memory_programs: Sequence[tuple[Program, Path]]
    minutes: float


def _held_to(isa: str) -> dict[str, str]:
    return {**os.environ, "ONEDNN_MAX_CPU_ISA": isa.upper()}


def _told(isa: str, *arguments: str, **env: str) -> Any:
    """Return the JSON that a module prints with oneDNN held to an ISA."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        capture_output=True,
        text=True,
        env={**_held_to(isa), **env},
    )
    # 1: something is wrong, which is what is looked for.
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


_BESIDE_OTHERS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait leave the cores to other processes."""

_HEADER = """
import json, onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.machine.store import processor
here = current()
version = "{major}.{minor}.{patch}".format(**og.version())
print(json.dumps([version, here.runtime, here.isa, processor(), here.threads]))
"""


def _empty(isa: str) -> tuple[Result, Source]:
    """Return a result without entries, for this oneDNN held to an ISA, and its source."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _HEADER],
        capture_output=True,
        text=True,
        check=True,
        env=_held_to(isa),
    )
    version, runtime, used, cpu, threads = json.loads(done.stdout)
    if used != isa:
        raise RuntimeError(f"oneDNN was held to {isa}, and uses {used}")
    today = datetime.date.today().isoformat()
    return Result(version, runtime, isa), Source(cpu, today, threads)


def _defects(isa: str, how: How) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for program, path in how.programs:
        made.setdefault(program.row, []).append(program.outcome(path, isa))
    return made


def _memory(isa: str, how: How) -> dict[str, str]:
    return {program.row: program.outcome(path, isa) for program, path in how.memory_programs}


def _benchdnn(isa: str, how: How) -> dict[str, str]:
    found: dict[str, str] = _told(isa, "matrix.benchdnn")
    return found


def _patterns(isa: str, how: How) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    asked = ("gallery", "--json", "--no-time")
    for case in _told(isa, *asked, **_BESIDE_OTHERS)["cases"]:
        counts = made.setdefault(case["pattern"], {})
        counts[case["verdict"]] = counts.get(case["verdict"], 0) + 1
    return made


def _selftest(isa: str, how: How) -> dict[str, dict[str, int]]:
    asked = ("onednn_graph_py", "selftest", "--json", "--minutes", str(how.minutes))
    found = _told(isa, *asked, **_BESIDE_OTHERS)
    return {
        family: {k: counts[k] for k in OUTCOMES if counts[k]}
        for family, counts in found["families"].items()
    }


def _kernels(isa: str, how: How) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = _told(isa, "matrix.kernels")
    return found


SECTIONS: dict[str, Callable[[str, How], dict[str, Any]]] = {
    "defects": _defects,
    "memory": _memory,
    "benchdnn": _benchdnn,
    "patterns": _patterns,
    "selftest": _selftest,
    "kernels": _kernels,
}
"""What measures the sections of a result."""

TIMED = frozenset({"kernels"})
"""Those that need the cores for themselves."""


def measure(isa: str, sections: Iterable[str], how: How, say: Callable[[str], None]) -> None:
    """Measure sections with oneDNN held to an instruction set, and keep each when it is there.

    Parameters
    ----------
    isa : str
    sections : iterable of str
    how : How
    say : callable
        Told what is done next.
    """
    made, source = _empty(isa)
    kept = next((r for r in load_all() if r.path == made.path), made)
    for section in sections:
        say(section)
        setattr(kept, section, SECTIONS[section](isa, how))
        kept.sources[section] = source
        kept.save()

"""The graph of each row of known defects as a C++ program, built and run: `Program`."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import memory_cases
from graphs import LINKED
from wrong_cases import ROWS

import onednn_graph_py as og
from onednn_graph_py.safety.table import DEFECTS
from onednn_graph_py.tools.export import to_cpp

__all__ = [
    "COMPILER",
    "DIRTY",
    "HEADERS",
    "LIBRARY",
    "Program",
    "memory_programs",
    "memory_titles",
    "programs",
    "titles",
]

DIRTY = {"MALLOC_PERTURB_": "165", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
"""Lets glibc give memory that is not 0: some results hold what oneDNN's own memory held before."""

SECONDS = 30
"""After so long a program is taken to hang."""

BYTES = 4 << 30
"""The memory that a program may take: with some defects oneDNN takes more and more."""


def installed_onednn() -> tuple[Path | None, Path]:
    """Return the folder of the headers and the file of the library that this process uses."""
    (library,) = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        if "libdnnl" in line and ".so" in line
    }
    places = [Path(sysconfig.get_path("data")) / "include"]
    cache = Path(os.environ.get("ONEDNN_GRAPH_PY_CACHE", Path.home() / ".cache/onednn_graph_py"))
    places += sorted(cache.glob(f"prefix/{'.'.join(map(str, LINKED))}.*/include"))
    found = [p for p in places if (p / "oneapi/dnnl/dnnl_graph.hpp").exists()]
    return (found[0] if found else None), Path(library)


COMPILER = shutil.which("c++") or shutil.which("g++")
HEADERS, LIBRARY = installed_onednn()


@dataclass(frozen=True)
class Program:
    """A program that shows a row, by its exit status.

    Parameters
    ----------
    row : str
        Its name.
    number : int
        Its place among the row's graphs.
    source : str
    """

    row: str
    number: int
    source: str

    def build(self, folder: Path, *options: str) -> Path:
        """Compile it against this oneDNN, unless that was done before."""
        assert COMPILER is not None
        assert HEADERS is not None
        text = "\n".join([self.source, str(HEADERS), str(LIBRARY), *options])
        made = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        if not made.exists():
            folder.mkdir(parents=True, exist_ok=True)
            source = made.with_suffix(".cpp")
            source.write_text(self.source, encoding="utf-8")
            half = made.with_suffix(".part")
            subprocess.run(
                [COMPILER, "-std=c++17", "-O0", *options, source, "-o", half, "-isystem", HEADERS,
                 LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-Wl,--allow-shlib-undefined"],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            half.rename(made)
        return made

    def outcome(self, built: Path, isa: str = "") -> str:
        """Run it, held to an instruction set, and return what happens.

        Returns
        -------
        str
            ``right``, ``wrong: ...``, ``refused``, ``crashed: ...`` or ``hung``.
        """
        # SYCL's plug-ins lie beside the library, and are only found so.
        environment = {**os.environ, **DIRTY, "LD_LIBRARY_PATH": str(LIBRARY.parent)}
        if isa:
            environment["ONEDNN_MAX_CPU_ISA"] = isa.upper()
        try:
            done = subprocess.run(
                [built],
                capture_output=True,
                text=True,
                env=environment,
                timeout=SECONDS,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES)),
            )
        except subprocess.TimeoutExpired:
            return "hung"
        if done.returncode < 0:
            return f"crashed: signal {-done.returncode}"
        if done.returncode == 4:
            found = [x for x in done.stdout.splitlines() if "elements are wrong" in x]
            return f"wrong: {found[0].partition(': ')[2]}"
        if done.returncode in (1, 3):  # an error, or no partition that oneDNN supports
            return "refused"
        assert done.returncode == 0, (self.row, done.returncode, done.stderr)
        return "right"


def titles() -> dict[str, str]:
    """Return what is wrong, in a sentence, by the row's name."""
    found = {row: DEFECTS[row].what for row in ROWS}
    return dict(sorted(found.items(), key=lambda entry: entry[1]))


def programs(rows: Iterable[str] = (), first_only: bool = False) -> Iterator[Program]:
    """Return the programs of some rows, or of all."""
    for text in titles():
        if rows and text not in rows:
            continue
        for i, build in enumerate(ROWS[text].met[: 1 if first_only else None]):
            b = og.GraphBuilder()
            build(b)
            yield Program(text, i, to_cpp(b, check=True))


def memory_titles() -> dict[str, str]:
    """Return what goes wrong, in a sentence, by the name of each row that the mirror refuses."""
    return {name: f"{DEFECTS[name].what}." for name in memory_cases.ROWS}


def memory_programs(rows: Iterable[str] = memory_cases.ROWS) -> Iterator[Program]:
    """Return the programs of rows that the mirror refuses and whose ops this oneDNN has."""
    for name, row in memory_cases.ROWS.items():
        if name not in rows:
            continue
        try:
            b = memory_cases.builder_of(row.wrong)
        except og.UnimplementedError:
            continue
        yield Program(name, 0, to_cpp(b, check=True))

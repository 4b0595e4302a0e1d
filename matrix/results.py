"""What was measured, in files by version and instruction set: `Result`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from onednn_graph_py.machine import Conditions

from . import ROOT

__all__ = ["FOLDER", "Result", "Source", "load_all"]

ISAS = (
    "sse41",
    "avx",
    "avx2",
    "avx2_vnni",
    "avx2_vnni_2",
    "avx512_core",
    "avx512_core_vnni",
    "avx512_core_bf16",
    "avx512_core_fp16",
    "avx512_core_amx",
    "avx10_1_512",
    "avx512_core_amx_fp16",
    "avx10_1_512_amx",
    "avx10_1_512_amx_fp16",
    "avx10_2",
    "avx10_2_amx_2",
)
"""oneDNN's names of instruction sets, from the smallest on."""

OUTCOMES = ("right", "wrong", "crashed", "refused", "avoided", "slow")
"""What can become of a random graph."""

FOLDER = ROOT / "docs" / "data" / "matrix"


class Source(NamedTuple):
    """Where and when a section was measured.

    Parameters
    ----------
    cpu, date : str
    threads : int
    """

    cpu: str
    date: str
    threads: int


@dataclass
class Result:
    """What one oneDNN does with one instruction set.

    Parameters
    ----------
    version, runtime, isa : str
        Such as 3.13.1, OpenMP and avx2.
    sources : dict
        The `Source` of each section that was measured.
    defects : dict
        The outcome for each graph of a row: see `programs.Program.outcome`.
    memory : dict
        The outcome for each row that the mirror refuses: see `programs.Program.outcome`.
    benchdnn : dict
        For each row of both, what `benchdnn.measured` returns.
    patterns : dict
        For each documented pattern, how many of its cases have each verdict.
    selftest : dict
        For each family of random graphs, how many have each outcome.
    kernels : dict
        For each documented pattern and data type, what `kernels.measured` returns.
    """

    version: str
    runtime: str
    isa: str
    sources: dict[str, Source] = field(default_factory=dict)
    defects: dict[str, list[str]] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    benchdnn: dict[str, str] = field(default_factory=dict)
    patterns: dict[str, dict[str, int]] = field(default_factory=dict)
    selftest: dict[str, dict[str, int]] = field(default_factory=dict)
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def conditions(self) -> Conditions:
        """The conditions in which known defects were looked for."""
        major, minor, _ = map(int, self.version.split("."))
        return Conditions((major, minor), self.runtime, self.isa, self.sources["defects"].threads)

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.version}-{self.runtime.lower()}" / f"{self.isa}.json"

    @property
    def rank(self) -> int:
        """The place of its instruction set among all."""
        return ISAS.index(self.isa) if self.isa in ISAS else len(ISAS)

    def save(self) -> None:
        """Write it, as a whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        half = self.path.with_suffix(".part")
        half.write_text(_compact(asdict(self)), encoding="utf-8")
        half.rename(self.path)


def _compact(given: dict[str, Any]) -> str:
    """Return JSON with a line for each entry of a section, so that changes can be read."""
    lines = []
    for name, value in given.items():
        if isinstance(value, dict):
            entries = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            lines.append(f"{json.dumps(name)}: {{\n" + ",\n".join(entries) + "\n}")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_all() -> Iterator[Result]:
    """Return all results, versions and instruction sets from the oldest on."""
    found = [_parsed(json.loads(p.read_text(encoding="utf-8"))) for p in FOLDER.glob("*/*.json")]
    yield from sorted(found, key=_order)


def _parsed(given: dict[str, Any]) -> Result:
    sources = {section: Source(*source) for section, source in given.pop("sources").items()}
    return Result(**given, sources=sources)


def _order(result: Result) -> tuple[Any, ...]:
    version = tuple(map(int, result.version.split(".")))
    return version, result.runtime, result.rank

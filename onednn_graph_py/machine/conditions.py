"""Conditions on which oneDNN's defects depend: version, runtime, instruction set and threads."""

from functools import cache
from typing import NamedTuple

from .. import _core
from ..base.linked import linked_version, version
from .cpu import Feature, has


class Conditions(NamedTuple):
    """The conditions in which a partition runs."""

    version: tuple[int, int]  # oneDNN's major and minor version
    runtime: str  # the runtime of its CPU engine, as oneDNN names it, such as `OpenMP` or `SYCL`
    isa: str  # the instruction set that oneDNN dispatches to, by its name in `cpu_isa`
    threads: int  # the number that a call may use

    def has(self, feature: Feature) -> bool:
        """Whether the instruction set has a feature."""
        return has(self.isa, feature)


@cache
def _runtime() -> str:
    return version().cpu_runtime


def current(threads: int | None = None) -> Conditions:
    """Return the conditions of this process, with `num_threads()` threads by default."""
    isa = _core.get_effective_cpu_isa().name
    return Conditions(linked_version(), _runtime(), isa, threads or _core.num_threads())

"""Conditions on which oneDNN's defects depend: version, runtime, instruction set and threads."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from .. import _core
from . import isa as _isa


class Conditions(NamedTuple):
    """The conditions in which a partition runs."""

    version: tuple[int, int]  # oneDNN's major and minor version
    runtime: str  # the runtime of its CPU engine, as oneDNN names it, such as `OpenMP` or `SYCL`
    isa: str  # the instruction set that oneDNN dispatches to, by its name in `cpu_isa`
    threads: int  # the number that a call may use

    @property
    def amx(self) -> bool:
        """Whether AMX kernels may run."""
        return _isa.has_amx(self.isa)

    @property
    def avx2(self) -> bool:
        """Whether AVX2 kernels may run."""
        return _isa.has_avx2(self.isa)

    @property
    def avx512(self) -> bool:
        """Whether AVX-512 kernels may run."""
        return _isa.has_avx512(self.isa)

    @property
    def avx512_bf16(self) -> bool:
        """Whether AVX-512 kernels may multiply in bf16 without converting to f32."""
        return _isa.has_avx512_bf16(self.isa)

    @property
    def vnni(self) -> bool:
        """Whether oneDNN adds int8 products without saturation."""
        return _isa.has_vnni(self.isa)

    @property
    def f16(self) -> bool:
        """Whether f16 kernels may run."""
        return _isa.has_f16(self.isa)


@cache
def _linked() -> tuple[tuple[int, int], str]:
    found = _core.version()
    return (int(found["major"]), int(found["minor"])), str(found["cpu_runtime"])


def current(threads: int | None = None) -> Conditions:
    """Return the conditions of this process.

    - `threads`: `num_threads()` by default
    """
    version, runtime = _linked()
    isa = _core.get_effective_cpu_isa().name
    return Conditions(version, runtime, isa, threads or _core.num_threads())

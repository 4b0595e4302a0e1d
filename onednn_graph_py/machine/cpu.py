"""Facts about this CPU, found without running kernels.

A kernel that fails because of a fault in the library would look like a CPU that lacks a feature.
"""

from __future__ import annotations

from .._core import get_effective_cpu_isa
from . import isa as _isa

_LACKING = "oneDNN uses {isa} on this CPU, and {dtype} needs {needs}"


def _lacks(dtype: str, has: bool, needs: str) -> str | None:
    isa = get_effective_cpu_isa().name
    return None if has else _LACKING.format(isa=isa, dtype=dtype, needs=needs)


def lacks_bf16() -> str | None:
    """Say why bf16 can't be used here, or None if it can."""
    has = _isa.has_bf16(get_effective_cpu_isa().name)
    return _lacks("bf16", has, "avx512_core or avx2_vnni_2")


def lacks_f16() -> str | None:
    """Say why f16 can't be used here, or None if it can."""
    has = _isa.has_f16(get_effective_cpu_isa().name)
    return _lacks("f16", has, "avx512_core_fp16 or avx2_vnni_2")


def lacks_f8() -> str | None:
    """Say why f8_e4m3 and f8_e5m2 can't be used here, or None if they can."""
    return _lacks("f8", _isa.has_f8(get_effective_cpu_isa().name), "avx512_core_fp16")


def lacks(data_type: str) -> str | None:
    """Say why a data type, by oneDNN's name, can't be computed in here, or None if it can."""
    checks = {"bf16": lacks_bf16, "f16": lacks_f16, "f8_e4m3": lacks_f8, "f8_e5m2": lacks_f8}
    return checks[data_type]() if data_type in checks else None


def largest_int8_weight() -> int:
    """Return the largest s8 weight for which sums of products with u8 values don't saturate.

    Without VNNI instructions the sum of two products saturates at 16 bits: 2 * 255 * 64 fits, and
    2 * 255 * 127 does not. oneDNN page: Nuances of int8 Computations.
    """
    return 127 if _isa.has_vnni(get_effective_cpu_isa().name) else 64

"""What this CPU can do, asked before it is tried.

Otherwise a fault in the library would look like a CPU that lacks something.
"""

from __future__ import annotations

from ._core import get_effective_cpu_isa

__all__ = ["lacks", "lacks_bf16", "lacks_f8", "lacks_f16", "largest_int8_weight"]

# On x64 oneDNN computes in bf16 from AVX-512 on (emulated where the CPU has no such instructions)
# and on AVX2 with the VNNI-2 extension.
_WITHOUT_BF16 = frozenset({"sse41", "avx", "avx2", "avx2_vnni"})
# In f16 with AVX512-FP16 (which AMX includes) or VNNI-2, in f8 with AVX512-FP16 only.
_WITHOUT_F16 = _WITHOUT_BF16 | {"avx512_core", "avx512_core_vnni", "avx512_core_bf16"}
_WITHOUT_F8 = _WITHOUT_F16 | {"avx2_vnni_2"}
_WITHOUT_VNNI = frozenset({"sse41", "avx", "avx2", "avx512_core"})


def lacks_bf16() -> str | None:
    """Say why bf16 can't be used here, or None if it can."""
    isa = get_effective_cpu_isa().name
    if isa in _WITHOUT_BF16:
        return f"oneDNN uses {isa} on this CPU, and bf16 needs avx512_core or avx2_vnni_2"
    return None


def lacks_f16() -> str | None:
    """Say why f16 can't be used here, or None if it can."""
    isa = get_effective_cpu_isa().name
    if isa in _WITHOUT_F16:
        return f"oneDNN uses {isa} on this CPU, and f16 needs avx512_core_fp16 or avx2_vnni_2"
    return None


def lacks_f8() -> str | None:
    """Say why f8_e4m3 and f8_e5m2 can't be used here, or None if they can."""
    isa = get_effective_cpu_isa().name
    if isa in _WITHOUT_F8:
        return f"oneDNN uses {isa} on this CPU, and f8 needs avx512_core_fp16"
    return None


def lacks(data_type: str) -> str | None:
    """Say why a data type, by oneDNN's name, can't be computed in here, or None if it can."""
    checks = {"bf16": lacks_bf16, "f16": lacks_f16, "f8_e4m3": lacks_f8, "f8_e5m2": lacks_f8}
    return checks[data_type]() if data_type in checks else None


def largest_int8_weight() -> int:
    """Tell how large s8 weights may be when u8 values are multiplied with them.

    Without VNNI instructions the sum of two products saturates at 16 bits: 2 * 255 * 64 fits, and
    2 * 255 * 127 does not. oneDNN page: Nuances of int8 Computations.
    """
    return 64 if get_effective_cpu_isa().name in _WITHOUT_VNNI else 127

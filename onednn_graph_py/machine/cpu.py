"""Facts about this CPU, found without running kernels.

A kernel that fails because of a fault in the library would look like a CPU that lacks a feature.
"""

from typing import Literal

from .._core import cpu_isa, get_effective_cpu_isa
from ..base.linked import version

# The bits of dnnl_cpu_isa_t; an instruction set has the bits of those that it contains, too.
_AVX2, _VNNI_256, _VNNI_2 = 1 << 2, 1 << 3, 1 << 4
_AVX512, _VNNI_512, _BF16_512, _F16_512, _AMX = 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9

Feature = Literal["amx", "avx2", "avx512", "avx512_bf16", "bf16", "f16", "f8", "vnni"]

_BITS: dict[Feature, int] = {
    "avx2": _AVX2,
    "avx512": _AVX512,
    "avx512_bf16": _BF16_512,  # products of bf16
    "vnni": _VNNI_256 | _VNNI_512,  # int8 products in 32 bits; else pairs saturate at 16 bits
    "amx": _AMX,
    "bf16": _AVX512 | _VNNI_2,  # AVX-512 emulates it at first
    "f16": _F16_512 | _VNNI_2,
    "f8": _F16_512,
}
"""Features and data types of oneDNN, and the instruction sets of which one is enough for each."""


def has(isa: str, feature: Feature) -> bool:
    """Return whether an instruction set has a feature."""
    known = cpu_isa.__members__.get(isa)
    value = int(isa[len("unknown(") : -1], 16) if known is None else known.value
    return bool(value & _BITS[feature])


_NEEDS: dict[str, tuple[Feature, str]] = {
    "bf16": ("bf16", "avx512_core or avx2_vnni_2"),
    "f16": ("f16", "avx512_core_fp16 or avx2_vnni_2"),
    "f8_e4m3": ("f8", "avx512_core_fp16"),
    "f8_e5m2": ("f8", "avx512_core_fp16"),
}
"""The features that data types need, and the instruction sets that bring them."""


def lacks(data_type: str) -> str | None:
    """Say why a data type, by oneDNN's name, can't be computed in here, or None if it can."""
    isa = get_effective_cpu_isa().name
    if data_type not in _NEEDS:
        return None
    feature, needs = _NEEDS[data_type]
    if has(isa, feature):
        return None
    return f"oneDNN uses {isa} on this CPU, and {feature} needs {needs}"


def largest_int8_weight() -> int:
    """Return the largest s8 weight for which sums of products with u8 values don't saturate.

    Without VNNI instructions the sum of two products saturates at 16 bits: 2 * 255 * 64 fits, and
    2 * 255 * 127 does not. oneDNN page: Nuances of int8 Computations.
    """
    return 127 if has(get_effective_cpu_isa().name, "vnni") else 64


def threads_can_be_set() -> bool:
    """Return whether a caller can set the number of threads; if not, the runtime decides."""
    return version().cpu_runtime == "OpenMP"

"""Features of each instruction set that oneDNN dispatches to, by its name in `cpu_isa`."""

from typing import Literal

from .._core import cpu_isa

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
"""What oneDNN can compute with or in, and the instruction sets of which one is enough."""


def has(isa: str, feature: Feature) -> bool:
    """Return whether an instruction set has a feature."""
    known = cpu_isa.__members__.get(isa)
    value = int(isa[len("unknown(") : -1], 16) if known is None else known.value
    return bool(value & _BITS[feature])

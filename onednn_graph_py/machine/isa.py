"""Features of each instruction set that oneDNN dispatches to, by its name in `cpu_isa`."""

from __future__ import annotations

from .._core import cpu_isa

# The bits of dnnl_cpu_isa_t; an instruction set has the bits of those that it contains, too.
_AVX2, _VNNI_256, _VNNI_2 = 1 << 2, 1 << 3, 1 << 4
_AVX512, _VNNI_512, _BF16_512, _F16_512, _AMX = 1 << 5, 1 << 6, 1 << 7, 1 << 8, 1 << 9


def _has(isa: str, bits: int) -> bool:
    known = cpu_isa.__members__.get(isa)
    value = int(isa[len("unknown(") : -1], 16) if known is None else known.value
    return bool(value & bits)


def has_avx2(isa: str) -> bool:
    """Return whether an instruction set has AVX2."""
    return _has(isa, _AVX2)


def has_avx512(isa: str) -> bool:
    """Return whether an instruction set has AVX-512."""
    return _has(isa, _AVX512)


def has_avx512_bf16(isa: str) -> bool:
    """Return whether an instruction set has AVX-512 with products of bf16."""
    return _has(isa, _BF16_512)


def has_vnni(isa: str) -> bool:
    """Return whether oneDNN adds int8 products in 32 bits; else pairs saturate at 16 bits."""
    return _has(isa, _VNNI_256 | _VNNI_512)


def has_amx(isa: str) -> bool:
    """Return whether an instruction set has AMX for bf16 and int8."""
    return _has(isa, _AMX)


def has_bf16(isa: str) -> bool:
    """Return whether oneDNN computes in bf16: from AVX-512 (emulated at first) or with VNNI-2."""
    return _has(isa, _AVX512 | _VNNI_2)


def has_f16(isa: str) -> bool:
    """Return whether oneDNN computes in f16."""
    return _has(isa, _F16_512 | _VNNI_2)


def has_f8(isa: str) -> bool:
    """Return whether oneDNN computes in f8_e4m3 and f8_e5m2."""
    return _has(isa, _F16_512)

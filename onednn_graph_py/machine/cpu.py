"""Facts about this CPU, found without running kernels.

A kernel that fails because of a fault in the library would look like a CPU that lacks a feature.
"""

from .._core import get_effective_cpu_isa
from .isa import Feature, has

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

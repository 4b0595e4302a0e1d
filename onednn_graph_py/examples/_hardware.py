"""What this CPU can do, asked before a data type is tried.

Otherwise a fault in the library would look like a CPU that lacks something.
"""

from __future__ import annotations

from .. import cpu_isa, get_effective_cpu_isa

# oneDNN computes in bf16 on x64 from AVX-512 on (emulated where the CPU has no such instructions)
# and on AVX2 with the VNNI-2 extension.
_WITHOUT_BF16 = frozenset({"sse41", "avx", "avx2", "avx2_vnni"})


def lacks_bf16() -> str | None:
    """Say why bf16 can't be used here, or None if it can."""
    isa: cpu_isa = get_effective_cpu_isa()
    if isa.name in _WITHOUT_BF16:
        return f"oneDNN uses {isa.name} on this CPU, and bf16 needs avx512_core or avx2_vnni_2"
    return None

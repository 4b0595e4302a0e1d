"""A kernel, as oneDNN's verbose log describes it: `Kernel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """A primitive of oneDNN that runs in a step, as its verbose log describes it.

    Parameters
    ----------
    kind : str
        ``matmul``, ``convolution``, ``reorder``, ...
    implementation : str
        Such as ``brg_matmul:avx512_core_amx``.
    memory : tuple of str
        Name, data type and layout of its tensors, such as ``wei:f32:BA16a64b``.
    attributes : tuple of str
        Such as ``attr-post-ops:eltwise_relu``.
    problem : str
        The shapes, as benchdnn writes them.
    when : str
        ``each call``, or ``first call`` for a kernel whose result is kept from then on.
    count : int
        Number of times that it runs in a call.
    seconds : float
        Time of all its runs in one call; the least of the few calls observed. Logging makes calls
        slower, so use this only to compare kernels with each other.
    """

    kind: str
    implementation: str
    memory: tuple[str, ...]
    attributes: tuple[str, ...]
    problem: str
    when: Literal["each call", "first call"]
    count: int
    seconds: float

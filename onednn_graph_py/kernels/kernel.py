"""A kernel, as oneDNN's verbose log tells it: `Kernel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """A primitive of oneDNN that runs in a step, as its verbose log tells it.

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
        The shapes, in benchdnn's form.
    when : str
        ``each call``, or ``first call`` for what is kept from then on.
    count : int
        How often it runs in a call.
    seconds : float
        Of all of these in one call; the least of the few calls observed. What is logged takes
        longer than what is not, so this tells kernels apart and no more.
    """

    kind: str
    implementation: str
    memory: tuple[str, ...]
    attributes: tuple[str, ...]
    problem: str
    when: Literal["each call", "first call"]
    count: int
    seconds: float

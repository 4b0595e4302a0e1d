"""Dropout, with oneDNN's random numbers."""

import numpy as np
import numpy.typing as npt

from ..ops.call import Call
from .registry import Array, reference

_Words = npt.NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _philox(counter: list[_Words], seed: _Words) -> list[_Words]:
    """Make four random 32-bit words, in uint64, by Philox4x32-10 of Salmon et al. (2011)."""
    a, b, c, d = counter
    keys = [seed & _LOW, seed >> _HALF]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b = (second >> _HALF) ^ b ^ keys[0], second & _LOW
        c, d = (first >> _HALF) ^ d ^ keys[1], first & _LOW
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & _LOW, (keys[1] + np.uint64(0xBB67AE85)) & _LOW]
    return [a, b, c, d]


@reference("Dropout")
def _dropout(
    call: Call, x: Array, seed: Array, offset: Array, probability: Array
) -> tuple[Array, ...]:
    key, start = (v.reshape(()).astype(np.int64).view(np.uint64) for v in (seed, offset))
    # One draw, from the index of the first of four elements, makes the numbers of all four.
    firsts = np.arange(0, x.size, 4, dtype=np.uint64)
    same = np.zeros_like(firsts)
    words = _philox([same + (start & _LOW), same + (start >> _HALF), firsts, same], key)
    drawn = np.stack(words, -1).reshape(-1)[: x.size].reshape(x.shape)
    p = min(max(float(probability.reshape(())), 0.0), 1.0)
    kept = drawn > p * float(_LOW)
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return np.where(kept, x * scale, 0.0), kept.astype(np.int64)

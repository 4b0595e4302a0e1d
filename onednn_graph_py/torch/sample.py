"""Whether tensors changed, by a sample of their bytes: torch does not count all writes."""

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import torch

Words = npt.NDArray[np.int64]

MOST_WORDS = 256
"""The words of 8 bytes that are compared at each call, but one of each tensor at least.

That takes 2 us if they are in a cache of the CPU, and 64 us if none is (Zen 3, busy).
"""

GOLDEN = 0.6180339887498949


class Sample:
    """Words of 8 bytes in the memory of tensors on the CPU, and what they were."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        count = max(1, MOST_WORDS // max(len(tensors), 1))
        self._own = torch.zeros(1)  # so that there is a word
        words = np.concatenate([_words(t, count) for t in (self._own, *tensors)])
        first = words.min()
        self._places = words - first
        # One array over the memory of all tensors, of which only these places are ever read.
        whole = {
            "data": (int(first) * 8, True),
            "shape": (int(self._places.max()) + 1,),
            "typestr": "<u8",
            "version": 3,
        }
        self._memory = np.asarray(SimpleNamespace(__array_interface__=whole))
        self._was = self._now()

    def _now(self) -> bytes:
        now: bytes = self._memory.take(self._places).tobytes()
        return now

    def is_same(self) -> bool:
        """Return whether the words are what they were; the tensors must still lie there."""
        return self._now() == self._was


def _words(tensor: torch.Tensor, count: int) -> Words:
    """Return the numbers of words that hold elements which are spread over a tensor."""
    elements = tensor.numel()
    if elements <= count:
        chosen = np.arange(elements)
    else:
        chosen = (np.arange(count) * GOLDEN % 1 * elements).astype(np.int64)
    offset = np.zeros(len(chosen), np.int64)
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        offset += chosen % size * stride if size else 0
        chosen = chosen // max(size, 1)
    words: Words = (tensor.data_ptr() + offset * tensor.element_size()) // 8
    return words

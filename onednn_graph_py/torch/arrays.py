"""torch's tensors as NumPy arrays, and back, without copies; whether their bytes changed."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from ..model.building.builder import GraphBuilder
from ..model.building.value import Value

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def array_of(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a row-major array of a CPU tensor's elements; a row-major one is not copied."""
    detached = tensor.detach() if tensor.requires_grad else tensor
    if detached.is_neg():
        detached = detached.resolve_neg()
    if not detached.is_contiguous():
        detached = detached.contiguous()
    if detached.dtype is torch.bfloat16:
        array: npt.NDArray[Any] = detached.view(torch.int16).numpy().view(BFLOAT16)
        return array
    plain: npt.NDArray[Any] = detached.numpy()
    return plain


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor in the memory of an array."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def constant_of(builder: GraphBuilder, tensor: torch.Tensor, dtype: str | None, name: str) -> Value:
    """Make a constant of a tensor, in its memory if oneDNN can read it there.

    Small ones are copied: equal layers share what is compiled if each has a constant in memory far
    from all others.
    """
    array = array_of(tensor).view()
    array.flags.writeable = False
    return builder.constant(array, dtype, name=name, copy=array.nbytes <= SMALL or None)


SMALL = 1 << 16

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
        self.was = self.now()

    def now(self) -> bytes:
        """Return the words; the tensors must still lie there."""
        now: bytes = self._memory.take(self._places).tobytes()
        return now

    def is_same(self) -> bool:
        """Return whether the words are what they were; the tensors must still lie there."""
        return self.now() == self.was


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

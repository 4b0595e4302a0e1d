"""torch's tensors as NumPy arrays, and back, without copies."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def array_of(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Return a row-major array of a CPU tensor's elements; a row-major one is not copied."""
    made = tensor.detach() if tensor.requires_grad else tensor
    if made.is_neg():
        made = made.resolve_neg()
    if not made.is_contiguous():
        made = made.contiguous()
    if made.dtype is torch.bfloat16:
        array: npt.NDArray[Any] = made.view(torch.int16).numpy().view(BFLOAT16)
        return array
    plain: npt.NDArray[Any] = made.numpy()
    return plain


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor in the memory of an array."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)

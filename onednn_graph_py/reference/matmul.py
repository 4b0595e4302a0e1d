"""The matrix product."""

import numpy as np

from ..ops.call import Call
from .registry import Array, reference


@reference("MatMul")
def _matmul(call: Call, a: Array, b: Array, bias: Array | None = None) -> Array:
    # Vectors are not transposed; np.matmul treats them as a row or a column, like oneDNN.
    if call.attr("transpose_a") and a.ndim > 1:
        a = a.swapaxes(-1, -2)
    if call.attr("transpose_b") and b.ndim > 1:
        b = b.swapaxes(-1, -2)
    product = np.matmul(a, b)
    if bias is not None:
        product = product + bias
    # The product of two vectors has one dim in oneDNN, and is a scalar in NumPy.
    return np.asarray(product).reshape(call.output(0).shape or ())

"""Shape functions of the ops: they infer outputs' shapes and check that the inputs fit together.

Each function takes a `Call`, raises `InvalidShapeError` if shapes don't fit, and returns the
outputs' shapes as far as they follow from inputs and attributes.
"""

from __future__ import annotations

from .convolution import (
    conv_transpose,
    conv_transpose_backward_data,
    conv_transpose_backward_weights,
    convolution,
    convolution_backward_data,
    convolution_backward_weights,
)
from .elementwise import (
    bias_add,
    bias_add_backward,
    binary,
    first,
    gen_index,
    nothing,
    prelu,
    prelu_backward,
    same,
    select,
)
from .interpolation import interpolate, interpolate_backward
from .movement import concat, reduce, reshape, transpose
from .normalization import (
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_training,
    group_norm,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    softmax,
    softmax_backward,
)
from .pooling import avg_pool_backward, max_pool_backward, pool
from .products import matmul
from .quantization import dynamic_quantize, quantize

__all__ = [
    "avg_pool_backward",
    "batch_norm_backward",
    "batch_norm_inference",
    "batch_norm_training",
    "bias_add",
    "bias_add_backward",
    "binary",
    "concat",
    "conv_transpose",
    "conv_transpose_backward_data",
    "conv_transpose_backward_weights",
    "convolution",
    "convolution_backward_data",
    "convolution_backward_weights",
    "dynamic_quantize",
    "first",
    "gen_index",
    "group_norm",
    "interpolate",
    "interpolate_backward",
    "layer_norm",
    "layer_norm_backward",
    "matmul",
    "max_pool_backward",
    "nothing",
    "pool",
    "prelu",
    "prelu_backward",
    "quantize",
    "reduce",
    "reshape",
    "rms_norm",
    "same",
    "select",
    "softmax",
    "softmax_backward",
    "transpose",
]

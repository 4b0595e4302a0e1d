"""Pooling over all of space: `global_avg_pool`."""

from __future__ import annotations

from ..model.building.value import Value
from .arguments import FLOATS, need_rank, need_type, need_value
from .parts import part


def global_avg_pool(x: Value, *, name: str | None = None) -> Value:
    """Add the mean over all spatial dims, which stay as dims of 1.

    Parameters
    ----------
    x : Value
        (batch, channels, height, width) or (batch, channels, depth, height, width) of f32, bf16 or
        f16.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        (batch, channels, 1, 1) or (batch, channels, 1, 1, 1), of the data type of `x`.

    Notes
    -----
    It is oneDNN's AvgPool, which also fuses with Quantize. Behind a convolution, whose result has
    the channels last in memory, oneDNN's ReduceMean runs a reference kernel: 22 ms instead of 0.5
    for 64 x 112 x 112 (3.7.2 and 3.13.1, AVX-512). With unknown sizes, which AvgPool can't have, it
    is a ReduceMean of the numbers of each channel side by side.
    """
    x = need_value("global_avg_pool", "x", x)
    need_type("global_avg_pool", "x", x, FLOATS)
    sizes = need_rank("global_avg_pool", "x", x, 4, 5)[2:]
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    if -1 not in sizes:
        return x.avg_pool(
            kernel=[*sizes], strides=ones, pads_begin=zeros, pads_end=zeros, exclude_pad=True,
            data_format="NCX", name=name,
        )  # fmt: skip
    # In these shapes 0 is the same dim of the input.
    flat = x.static_reshape(shape=(0, 0, -1), special_zero=True, name=part(name, "side by side"))
    mean = flat.reduce_mean(axes=[2], keep_dims=True, name=part(name, "mean"))
    return mean.static_reshape(shape=(0, 0, *ones), special_zero=True, name=name)

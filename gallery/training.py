"""Training: gradients of convolution and batch normalization."""

from __future__ import annotations

from typing import Literal

from onednn_graph_py.model.building.builder import GraphBuilder

from ._cases import FLOATS, kernels_of
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]


def conv_backward_weights_bias(
    dtype: str = "f32", *, data_format: Literal["NXC", "NCX"] = "NXC"
) -> GraphBuilder:
    """Build the gradients of a convolution's weights and bias, from the same ``diff_dst``."""
    b = GraphBuilder()
    channels_last = data_format == "NXC"
    src = b.input((2, 10, 10, 16) if channels_last else (2, 16, 10, 10), dtype, name="src")
    diff = b.input((2, 8, 8, 32) if channels_last else (2, 32, 8, 8), dtype, name="diff_dst")
    weights = b.convolution_backward_weights(
        src,
        diff,
        weights_shape=(3, 3, 16, 32) if channels_last else (32, 16, 3, 3),
        strides=(1, 1),
        pads_begin=(0, 0),
        pads_end=(0, 0),
        dilations=(1, 1),
        data_format=data_format,
        weights_format="XIO" if channels_last else "OIX",
    )
    bias = b.bias_add_backward(diff, data_format=data_format)
    b.output(diff_weights=weights, diff_bias=bias)
    return b


# oneDNN has the pattern, but turns it off.
_NO_BIAS_GRADIENT = (
    Deviation(None, "the pattern of BiasAddBackward is switched off, and no kernel has it"),
)

_CONV_BIAS = Pattern(
    "T-01",
    "ConvolutionBackwardWeights + BiasAddBackward",
    "training",
    "The gradients of a convolution's weights and of its bias have the same diff_dst. All tensors "
    "have one data type, f32, bf16 or f16.",
    "graph/fusion_patterns/fusion_patterns",
    conv_backward_weights_bias,
    tuple(
        Case(
            data_format,
            dtype,
            {"dtype": dtype, "data_format": data_format},
            kernels=kernels_of(dtype),
            deviations=_NO_BIAS_GRADIENT,
        )
        for dtype in FLOATS
        for data_format in ("NXC", "NCX")
    ),
)


def relu_backward_batch_norm(
    dtype: str = "f32",
    *,
    data_format: str = "NCX",
    reads: str = "src",
    outputs: int = 3,
    use_dst: bool = True,
) -> GraphBuilder:
    """Build the gradients of a ReLU, then of a batch normalization.

    Parameters
    ----------
    dtype : str
    data_format : str
    reads : str
        The input of BatchNormTrainingBackward that ReLUBackward makes: ``src``, as in oneDNN's
        pattern, or ``diff_dst``, as in a chain of gradients.
    outputs : int
        1, or 3 with the gradients of gamma and beta.
    use_dst : bool
        ReLUBackward reads the ReLU's result, not its source.
    """
    b = GraphBuilder()
    shape = (2, 16, 8, 8) if data_format == "NCX" else (2, 8, 8, 16)
    relu = b.input(shape, dtype, name="relu_dst" if use_dst else "relu_src")
    diff = b.relu_backward(relu, b.input(shape, dtype, name="diff_dst"), use_dst=use_dst)
    other = b.input(shape, dtype, name="other")
    data = (diff, other) if reads == "src" else (other, diff)
    mean, variance, gamma = (b.input((16,), "f32", name=n) for n in ("mean", "variance", "gamma"))
    made = b.op(
        "BatchNormTrainingBackward",
        *data,
        mean,
        variance,
        *([gamma] if outputs == 3 else []),
        outputs=[(shape, dtype), ((16,), "f32"), ((16,), "f32")][:outputs],
        epsilon=1e-5,
        data_format=data_format,
    )
    b.output(*(made if isinstance(made, tuple) else (made,)))
    return b


_RELU_BATCH_NORM = Pattern(
    "T-02",
    "ReLUBackward + BatchNormTrainingBackward",
    "training",
    "ReLUBackward's result is input 0 of BatchNormTrainingBackward. Data types are f32, bf16 or "
    "f16; mean, variance, gamma and their gradients are f32.",
    "graph/fusion_patterns/fusion_patterns",
    relu_backward_batch_norm,
    tuple(
        Case(
            name,
            dtype,
            {"dtype": dtype, **arguments},
            partitions=partitions,
            kernels=kernels_of(dtype),
        )
        for dtype in FLOATS
        for name, arguments, partitions in (
            ("NCX", {}, 1),
            ("NXC", {"data_format": "NXC"}, 1),
            ("of ReLU's source", {"use_dst": False}, 1),
            ("without gamma", {"outputs": 1}, None),
            ("as diff_dst, which is not the pattern", {"reads": "diff_dst"}, 2),
        )
    ),
)

PATTERNS: tuple[Pattern, ...] = (_CONV_BIAS, _RELU_BATCH_NORM)
"""The family's rows."""

"""Training: gradients of convolution, batch normalization and attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from ..builder import GraphBuilder
from ..value import Value
from ._cases import FLOATS, kernels_of
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]


def conv_backward_weights_bias(
    dtype: str = "f32", *, data_format: Literal["NXC", "NCX"] = "NXC"
) -> GraphBuilder:
    """Gradients of a convolution's weights and bias, both of the same ``diff_dst``."""
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


# oneDNN has the pattern, and turns it off.
_NO_BIAS_GRADIENT = (Deviation(None, "the pattern is off, and no kernel has BiasAddBackward"),)

_CONV_BIAS = Pattern(
    "T-01",
    "ConvolutionBackwardWeights + BiasAddBackward",
    "training",
    "The gradients of a convolution's weights and of its bias, of one tensor diff_dst; one data "
    "type throughout, f32, bf16 or f16.",
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
    """Gradients of a ReLU, then of a batch normalization.

    Parameters
    ----------
    dtype : str
    data_format : str
    reads : str
        Which input of BatchNormTrainingBackward ReLUBackward makes: ``src``, as oneDNN wants it, or
        ``diff_dst``, as a chain of gradients has it.
    outputs : int
        1 or 3: with the gradients of gamma and beta.
    use_dst : bool
        ReLUBackward is given the ReLU's result, not its source.
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
    "ReLUBackward's result is input 0 of BatchNormTrainingBackward. f32, bf16 or f16, with mean, "
    "variance, gamma and their gradients in f32.",
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
            ("without gamma", {"outputs": 1}, 1),
            ("as diff_dst, which is not the pattern", {"reads": "diff_dst"}, 2),
        )
    ),
)


# Far enough below the scores that nothing is left of its exponential.
_HIDDEN = -100.0


def _scores(
    b: GraphBuilder, query: Value, key: Value, scale: str | None, mask: str | None
) -> tuple[Value, Value | None]:
    """Scaled and masked scores in f32, and the scale."""
    assert query.shape is not None and key.shape is not None
    scores: Value = b.matmul(query, key, transpose_b=True, dtype="f32")
    factor = None
    if scale is not None:
        root = np.sqrt(query.shape[-1])
        factor = b.constant([1 / root if scale == "Multiply" else root], "f32")
        scores = b.op(scale, scores, factor)
    if mask is not None:
        rows, columns = query.shape[-2], key.shape[-2]
        seen = np.tril(np.ones((rows, columns), bool))
        shape = (1,) * (len(query.shape) - 2) + (rows, columns)
        if mask == "Add":
            scores = b.add(scores, b.constant(np.where(seen, 0.0, _HIDDEN).reshape(shape), "f32"))
        else:
            hidden = b.constant([_HIDDEN], "f32")
            scores = b.select(b.constant(seen.reshape(shape)), scores, hidden)
    return scores, factor


def _heads(
    b: GraphBuilder, dtype: str, groups: int, size: int, value_size: int
) -> tuple[Value, Value, Value, tuple[int, ...]]:
    """Query, key and value of 2 items and 4 heads, and the result's shape.

    With `groups`, so many query heads share a key and a value, and the tensors have 5 dims.
    """
    query: tuple[int, ...] = (2, 4, 16, size)
    shared: tuple[int, ...] = (2, 4, 24)
    if groups > 1:
        query, shared = (2, 4 // groups, groups, 16, size), (2, 4 // groups, 1, 24)
    return (
        b.input(query, dtype, name="query"),
        b.input((*shared, size), dtype, name="key"),
        b.input((*shared, value_size), dtype, name="value"),
        (*query[:-1], value_size),
    )


def attention_training_forward(
    dtype: str = "f32",
    *,
    scale: str | None = "Multiply",
    mask: str | None = None,
    groups: int = 1,
    value_size: int = 32,
) -> GraphBuilder:
    """Attention that also returns the logarithm of each row's sum of exponentials.

    Parameters
    ----------
    dtype : str
        Of query, key, value and result; what is between is f32.
    scale : str, optional
        ``Multiply`` or ``Divide``.
    mask : str, optional
        ``Add`` or ``Select``.
    groups : int
        Query heads that share a key and a value.
    value_size : int
        Elements of a head of value.
    """
    b = GraphBuilder()
    query, key, value, _ = _heads(b, dtype, groups, 32, value_size)
    scores, _ = _scores(b, query, key, scale, mask)
    assert scores.shape is not None
    probabilities, stats = b.op(
        "SoftMax",
        scores,
        outputs=[(scores.shape, dtype), ((*scores.shape[:-1], 1), "f32")],
        axis=-1,
        **({} if mask is None else {"mode": "inf_as_zero"}),
    )
    b.output(result=b.matmul(probabilities, value), stats=stats)
    return b


def attention_training_backward(
    dtype: str = "f32",
    *,
    scale: str | None = "Multiply",
    mask: str | None = None,
    groups: int = 1,
    value_size: int = 32,
    softmax_backward: bool = False,
    diff_mask: bool = False,
) -> GraphBuilder:
    """Gradients of attention with respect to query, key and value.

    Parameters
    ----------
    dtype : str
        Of all inputs and outputs but the statistics; what is between is f32.
    scale, mask, groups, value_size
        As in `attention_training_forward`.
    softmax_backward : bool
        With the op SoftMaxBackward, as 3.9 documents it; otherwise with the sum of the result times
        its gradient in its place, as 3.12 does.
    diff_mask : bool
        The gradient of the masked scores is an output too.
    """
    b = GraphBuilder()
    query, key, value, shape = _heads(b, dtype, groups, 32, value_size)
    scores, factor = _scores(b, query, key, scale, mask)
    assert scores.shape is not None
    stats = b.input((*scores.shape[:-1], 1), "f32", name="stats")
    diff = b.input(shape, dtype, name="diff_result")
    probabilities = b.exp(b.subtract(scores, stats))

    def narrow(wide: Value) -> Value:
        return wide if dtype == "f32" else b.type_cast(wide, dtype=dtype)

    def shared(gradient: Value) -> Value:
        """One for all the query heads of a group."""
        return b.reduce_sum(gradient, axes=(2,), keep_dims=True) if groups > 1 else gradient

    diff_value = shared(b.matmul(narrow(probabilities), diff, transpose_a=True))
    diff_probabilities = b.matmul(diff, value, transpose_b=True, dtype="f32")
    if softmax_backward:
        diff_scores = b.softmax_backward(diff_probabilities, probabilities, axis=-1)
    else:
        product = b.op(
            "Multiply", b.input(shape, dtype, name="result"), diff, outputs=[(shape, "f32")]
        )
        row = b.reduce_sum(product, axes=(-1,), keep_dims=True)
        diff_scores = b.multiply(probabilities, b.subtract(diff_probabilities, row))
    scaled = diff_scores if factor is None else b.op(str(scale), diff_scores, factor)
    narrowed = narrow(scaled)
    diff_query = b.matmul(narrowed, key)
    diff_key = shared(b.matmul(narrowed, query, transpose_a=True))
    b.output(diff_query=diff_query, diff_key=diff_key, diff_value=diff_value)
    if diff_mask:
        b.output(diff_mask=diff_scores)
    return b


_FORMS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("no mask", {}),
    ("divided", {"scale": "Divide"}),
    ("no scale", {"scale": None}),
    ("mask added", {"mask": "Add"}),
    ("mask selected", {"mask": "Select"}),
    ("2 query heads a key", {"groups": 2}),
    ("2 query heads a key, mask added", {"groups": 2, "mask": "Add"}),
    ("smaller heads of value", {"value_size": 16}),
)


_FORWARD = Pattern(
    "T-03",
    "MatMul + [Multiply | Divide]? + [Add | Select]? + SoftMax with stats + MatMul",
    "training",
    "Attention whose SoftMax has its second output too. f32, bf16 or f16, with f32 between the "
    "first MatMul and SoftMax. 4 dims, or 5 where query heads share keys.",
    "graph/fusion_patterns/sdpa",
    attention_training_forward,
    tuple(
        Case(name, dtype, {"dtype": dtype, **arguments}, kernels=kernels_of(dtype), needs=(3, 9))
        for dtype in FLOATS
        for name, arguments in _FORMS
    ),
)


def _backward_cases(dtype: str) -> list[Case]:
    kernels = kernels_of(dtype)
    # TypeCast is a partition too.
    casts = 0 if dtype == "f32" else 1
    cases = []
    for name, arguments in _FORMS:
        scaled = arguments.get("scale", "Multiply") is not None
        apart = Deviation(7 + casts, "only fused with a scale", since=(3, 12))
        cases.append(
            Case(
                name,
                dtype,
                {"dtype": dtype, **arguments},
                kernels=kernels,
                needs=(3, 12),
                deviations=() if scaled else (apart,),
            )
        )
    with_mask = {"dtype": dtype, "mask": "Add", "diff_mask": True}
    cases.append(Case("gradient of the mask", dtype, with_mask, kernels=kernels, needs=(3, 12)))
    older = Deviation(
        7 + 2 * casts, "fused only as 3.12 documents it, without SoftMaxBackward", since=(3, 12)
    )
    cases.append(
        Case(
            "with SoftMaxBackward",
            dtype,
            {"dtype": dtype, "softmax_backward": True},
            kernels=kernels,
            needs=(3, 9),
            deviations=(older,),
        )
    )
    return cases


_BACKWARD = Pattern(
    "T-04",
    "MatMul + [Multiply | Divide]? + [Add | Select]? + Subtract + Exp, the gradients of attention",
    "training",
    "Probabilities are made again of the forward graph's stats; one MatMul each gives the "
    "gradients of value, of the probabilities, of query and of key. ReduceSum adds up those of "
    "query heads that share a key. In bf16 and f16, TypeCast stands before the MatMuls that read "
    "what was computed in f32.",
    "graph/fusion_patterns/sdpa",
    attention_training_backward,
    tuple(case for dtype in FLOATS for case in _backward_cases(dtype)),
)

PATTERNS: tuple[Pattern, ...] = (_CONV_BIAS, _RELU_BATCH_NORM, _FORWARD, _BACKWARD)
"""The family's rows."""

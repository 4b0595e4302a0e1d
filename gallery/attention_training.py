"""Training of attention: the forward pass with statistics of its SoftMax, and the gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import FLOATS, in_floats, kernels_of
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

# So far below the scores that its exponential is 0.
_HIDDEN = -100.0


def _scores(
    b: GraphBuilder, query: Value, key: Value, scale: str | None, mask: str | None
) -> tuple[Value, Value | None]:
    """Return the scaled and masked scores in f32, and the scale."""
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
    """Return query, key and value of 2 items and 4 heads, and the result's shape.

    With `groups` above 1, that many query heads share a key and a value, and tensors have 5 dims.
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


def _narrow(wide: Value, dtype: str) -> Value:
    made: Value = wide if dtype == "f32" else wide.type_cast(dtype=dtype)
    return made


def _dropout_inputs(b: GraphBuilder) -> tuple[Value, Value, Value]:
    """Return seed, offset and probability; the same ones always drop the same elements."""
    return b.constant([7], "s64"), b.constant([3], "s64"), b.constant([0.5], "f32")


def _dropped(value: Value, drawn: tuple[Value, Value, Value]) -> Value:
    made: Value = value.dropout(*drawn)
    return made


def attention_training_forward(
    dtype: str = "f32",
    *,
    scale: str | None = "Multiply",
    mask: str | None = None,
    groups: int = 1,
    value_size: int = 32,
    dropout: bool = False,
) -> GraphBuilder:
    """Build attention that also returns the logarithm of each row's sum of exponentials.

    Parameters
    ----------
    dtype : str
        The data type of query, key, value and result; other tensors are f32.
    scale : str, optional
        ``Multiply`` or ``Divide``.
    mask : str, optional
        ``Add`` or ``Select``.
    groups : int
        The number of query heads that share a key and a value.
    value_size : int
        The size of a value head.
    dropout : bool
        Drop half of the probabilities.
    """
    b = GraphBuilder()
    query, key, value, _ = _heads(b, dtype, groups, 32, value_size)
    scores, _ = _scores(b, query, key, scale, mask)
    assert scores.shape is not None
    probabilities, stats = b.op(
        "SoftMax",
        scores,
        outputs=[
            (scores.shape, "f32" if dropout else dtype),
            ((*scores.shape[:-1], 1), "f32"),
        ],
        axis=-1,
        **({} if mask is None else {"mode": "inf_as_zero"}),
    )
    if dropout:
        probabilities = _narrow(_dropped(probabilities, _dropout_inputs(b)), dtype)
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
    dropout: bool = False,
) -> GraphBuilder:
    """Build the gradients of attention with respect to query, key and value.

    Parameters
    ----------
    dtype : str
        The data type of all inputs and outputs except the statistics; other tensors are f32.
    scale, mask, groups, value_size, dropout
        As in `attention_training_forward`.
    softmax_backward : bool
        Use the op SoftMaxBackward, as 3.9 documents; by default use the sum of the result times
        its gradient, as 3.12 documents.
    diff_mask : bool
        Also output the gradient of the masked scores.
    """
    b = GraphBuilder()
    query, key, value, shape = _heads(b, dtype, groups, 32, value_size)
    scores, factor = _scores(b, query, key, scale, mask)
    assert scores.shape is not None
    stats = b.input((*scores.shape[:-1], 1), "f32", name="stats")
    diff = b.input(shape, dtype, name="diff_result")
    probabilities = b.exp(b.subtract(scores, stats))

    def shared(gradient: Value) -> Value:
        """Add up the gradients of all query heads of a group."""
        return b.reduce_sum(gradient, axes=(2,), keep_dims=True) if groups > 1 else gradient

    kept, diff_probabilities = probabilities, b.matmul(diff, value, transpose_b=True, dtype="f32")
    if dropout:
        drawn = _dropout_inputs(b)
        kept, diff_probabilities = (_dropped(v, drawn) for v in (kept, diff_probabilities))
    diff_value = shared(b.matmul(_narrow(kept, dtype), diff, transpose_a=True))
    if softmax_backward:
        diff_scores = b.softmax_backward(diff_probabilities, probabilities, axis=-1)
    else:
        product = b.op(
            "Multiply", b.input(shape, dtype, name="result"), diff, outputs=[(shape, "f32")]
        )
        row = b.reduce_sum(product, axes=(-1,), keep_dims=True)
        diff_scores = b.multiply(probabilities, b.subtract(diff_probabilities, row))
    scaled = diff_scores if factor is None else b.op(str(scale), diff_scores, factor)
    narrowed = _narrow(scaled, dtype)
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
# 3.12 has s64 and Dropout; 3.13 documents the pattern.
_WITH_DROPOUT: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("dropout", {"dropout": True}),
    ("mask added, dropout", {"mask": "Add", "dropout": True}),
    ("2 query heads a key, mask added, dropout", {"groups": 2, "mask": "Add", "dropout": True}),
)


_FORWARD = Pattern(
    "T-03",
    "MatMul + [Multiply | Divide]? + [Add | Select]? + SoftMax with stats + Dropout? + MatMul",
    "training",
    "Attention whose SoftMax also has its second output. Data types are f32, bf16 or f16, with f32 "
    "between the first MatMul and SoftMax. Tensors have 4 dims, or 5 if query heads share keys. "
    "Dropout in f32 may follow SoftMax, before the TypeCast.",
    "graph/fusion_patterns/sdpa",
    attention_training_forward,
    (
        *(
            case
            for name, arguments in _FORMS
            for case in in_floats(name, needs=(3, 9), **arguments)
        ),
        *(
            case
            for name, arguments in _WITH_DROPOUT
            for case in in_floats(name, needs=(3, 13), **arguments)
        ),
    ),
)


def _backward_cases(dtype: str) -> list[Case]:
    kernels = kernels_of(dtype)
    # TypeCasts are partitions too.
    casts = 0 if dtype == "f32" else 1
    cases = []
    for name, arguments in _FORMS:
        scaled = arguments.get("scale", "Multiply") is not None
        apart = Deviation(
            7 + casts, "attention for training is fused only with a scale", since=(3, 12)
        )
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
    for name, arguments in _WITH_DROPOUT:
        cases += in_floats(name, dtypes=(dtype,), needs=(3, 13), **arguments)
    with_mask = {"dtype": dtype, "mask": "Add", "diff_mask": True}
    cases.append(Case("gradient of the mask", dtype, with_mask, kernels=kernels, needs=(3, 12)))
    older = Deviation(
        7 + 2 * casts,
        "attention for training is fused only as 3.12 documents it, without SoftMaxBackward",
        since=(3, 12),
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
    "The graph computes the probabilities again from the forward graph's stats; four MatMuls "
    "compute the gradients of value, probabilities, query and key. ReduceSum adds up the gradients "
    "of query heads that share a key. In bf16 and f16, TypeCasts precede the MatMuls that read f32 "
    "results. Dropout, if the forward graph has it, applies to probabilities and their gradient.",
    "graph/fusion_patterns/sdpa",
    attention_training_backward,
    tuple(case for dtype in FLOATS for case in _backward_cases(dtype)),
)

PATTERNS: tuple[Pattern, ...] = (_FORWARD, _BACKWARD)
"""The family's rows."""

"""The categories of ops that the documents of fusion patterns name: Unary, Binary, Reduction."""

from __future__ import annotations

from typing import Any

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value
from onednn_graph_py.ops.lookup import with_trait

from ._cases import FLOATS, in_floats
from ._epilogue import BINARY, UNARY, drawn, epilogue
from .pattern import Deviation, Pattern

__all__ = ["PATTERNS", "REDUCTION"]

REDUCTION = tuple(sorted(with_trait("reduces")))
"""The ops of the category Reduction."""

_SHAPE = (4, 16, 24)


def _behind(b: GraphBuilder, producer: str | None, x: Value) -> Value:
    """Return the product of `x` with weights, or `x` itself if `producer` is None."""
    if producer is None:
        return x
    size = (x.shape or ())[-1]
    made: Value = b.op(producer, x, b.constant(drawn(0, (size, size), 0.2), x.dtype))
    return made


def unary_op(dtype: str = "f32", kind: str = "ReLU", behind: str | None = None) -> GraphBuilder:
    """Build a Unary op, alone or after a MatMul."""
    b = GraphBuilder()
    x = b.input(_SHAPE, dtype, name="src")
    y = _behind(b, behind, x)
    if behind is not None and kind in ("Log", "Sqrt"):
        y = b.op("Exp", y)  # their results of negative numbers are not defined
    b.output(b.op(kind, y, **UNARY[kind]))
    return b


def binary_op(
    dtype: str = "f32", kind: str = "Add", behind: str | None = None, operand: str = "full"
) -> GraphBuilder:
    """Build a Binary op, alone or after a MatMul, whose result is the first operand."""
    b = GraphBuilder()
    y = _behind(b, behind, b.input(_SHAPE, dtype, name="src_0"))
    if operand == "input":
        b.output(b.op(kind, y, b.input(_SHAPE, dtype, name="src_1")))
    else:
        b.output(epilogue(y, [f"{kind}:{operand}"]))
    return b


def reduction_op(
    dtype: str = "f32",
    kind: str = "ReduceSum",
    keep_dims: bool = True,
    axes: tuple[int, ...] = (1,),
) -> GraphBuilder:
    """Build a Reduction."""
    b = GraphBuilder()
    x = b.input(_SHAPE, dtype, name="src")
    b.output(b.op(kind, x, axes=axes, keep_dims=keep_dims))
    return b


def _unary_cases() -> tuple[Any, ...]:
    made: list[Any] = []
    for kind in UNARY:
        dtypes = ("f32",) if kind == "Round" else FLOATS
        deviations: tuple[Deviation, ...] = ()
        if kind == "Pow":
            deviations = (
                Deviation(None, "Pow is documented until 3.7, but no version has a kernel for it"),
            )
        made += in_floats(kind, dtypes=dtypes, kind=kind, deviations=deviations)
        made += in_floats(
            f"MatMul + {kind}", dtypes=dtypes, kind=kind, behind="MatMul", deviations=deviations
        )
    return tuple(made)


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "CAT-U",
        "Unary",
        "operation",
        "The op reads a tensor, and its result has the same shape and data type: f32, bf16 or f16, "
        "for Round f32.",
        "graph/fusion_patterns/unary_fusion_patterns",
        unary_op,
        _unary_cases(),
    ),
    Pattern(
        "CAT-B",
        "Binary",
        "operation",
        "The op reads two tensors of one data type, f32, bf16 or f16, and broadcasts them.",
        "graph/fusion_patterns/binary_fusion_patterns",
        binary_op,
        tuple(
            case
            for kind in BINARY
            for case in (
                *in_floats(kind, kind=kind, operand="input"),
                *in_floats(f"{kind}, per channel", kind=kind, operand="channel"),
                *in_floats(f"MatMul + {kind}", kind=kind, behind="MatMul", operand="full"),
            )
        ),
    ),
    Pattern(
        "CAT-R",
        "Reduction",
        "operation",
        "The op reads a tensor of f32, bf16 or f16, and has axes and an optional keep_dims.",
        "graph/fusion_patterns/reduction_fusion_patterns",
        reduction_op,
        tuple(
            case
            for kind in REDUCTION
            for case in (
                *in_floats(kind, kind=kind),
                *in_floats(f"{kind}, keep_dims false", kind=kind, keep_dims=False),
                *in_floats(f"{kind} of 2 axes", kind=kind, axes=(0, 2)),
            )
        ),
    ),
)
"""The rows CAT-U, CAT-B and CAT-R."""

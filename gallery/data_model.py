"""Layouts, shapes, strides and conversions of the data model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from . import data_types
from ._cases import in_floats
from ._epilogue import drawn
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

_PAGE = "graph/programming_model/graph_basic_concepts"
_PRECISION_PAGE = "graph/programming_model/low_precision"


def _convolved(x: Value, outputs: int, size: int) -> Value:
    assert x.shape is not None
    b, pad = x.builder, size // 2
    weights = drawn(outputs, (size, size, x.shape[-1], outputs), 0.1)
    made: Value = b.convolution(
        x,
        b.constant(weights, x.dtype),
        strides=(1, 1),
        pads_begin=(pad, pad),
        pads_end=(pad, pad),
        dilations=(1, 1),
        data_format="NXC",
        weights_format="XIO",
    )
    return made


def layout_any(dtype: str = "f32") -> GraphBuilder:
    """Build two partitions; the tensor between them has the layout that oneDNN prefers."""
    b = GraphBuilder()
    x = b.input((2, 8, 8, 16), dtype, name="x")
    b.output(_convolved(b.relu(_convolved(x, 32, 3)), 16, 1))
    return b


def layout_strided(
    dtype: str = "f32", *, op: str = "ReLU", order: Sequence[int] = (0, 1, 2, 3)
) -> GraphBuilder:
    """Build an op that reads a tensor whose dims have another order in memory.

    Parameters
    ----------
    dtype : str
    op : str
        The op: ``ReLU``, ``Reorder`` or ``MatMul``.
    order : sequence of int
        The dims, from the one with the largest stride to the one with the smallest.
    """
    b = GraphBuilder()
    shape = (2, 4, 6, 8)
    strides, step = [0] * 4, 1
    for dim in reversed(order):
        strides[dim], step = step, step * shape[dim]
    x = b.input(shape, dtype, name="x", strides=strides)
    b.output(b.matmul(x, b.input((8, 5), dtype)) if op == "MatMul" else b.op(op, x))
    return b


def layout_opaque(dtype: str = "f32") -> GraphBuilder:
    """Build a MatMul with constant weights, which oneDNN keeps in its own layout."""
    b = GraphBuilder()
    b.output(_convolved(b.input((2, 8, 8, 16), dtype, name="x"), 32, 3))
    return b


def layout_undef(dtype: str = "f32") -> GraphBuilder:
    """Build a tensor inside a partition, which never gets a layout."""
    b = GraphBuilder()
    b.output(b.relu(b.matmul(b.input((4, 16), dtype, name="x"), b.input((16, 8), dtype))))
    return b


def unknown_dims(dtype: str = "f32", *, op: str = "MatMul", known: int = 1) -> GraphBuilder:
    """Build an op with dims that are unknown until a call.

    Parameters
    ----------
    dtype : str
    op : str
        ``MatMul``, ``Add`` or ``Convolution``.
    known : int
        The number of known dims, counted from the last.
    """
    b = GraphBuilder()
    sizes = (2, 8, 8, 16) if op == "Convolution" else (4, 16)
    shape = tuple(d if i >= len(sizes) - known else -1 for i, d in enumerate(sizes))
    x = b.input(shape, dtype, name="x")
    if op == "Convolution":
        b.output(_convolved(x, 8, 3))
    elif op == "MatMul":
        b.output(b.matmul(x, b.constant(drawn(0, (16, 8)), dtype)))
    else:
        b.output(b.op(op, x, b.input(shape, dtype, name="y")))
    return b


def unknown_ndims(dtype: str = "f32", *, of: str = "output") -> GraphBuilder:
    """Build an op with a tensor whose number of dims is unknown.

    Parameters
    ----------
    dtype : str
    of : str
        The ``output`` of an op, which is inferred from its inputs, or an ``input`` of the graph.
    """
    b = GraphBuilder()
    x = b.input(None if of == "input" else (4, 16), dtype, name="x")
    b.output(b.op("ReLU", x, outputs=[(None, dtype)]))
    return b


def scalars_and_zero_dims(
    dtype: str = "f32", *, op: str = "ReLU", shape: Sequence[int] = (), other: Sequence[int] = ()
) -> GraphBuilder:
    """Build an op with a tensor without dims or without elements.

    Parameters
    ----------
    dtype : str
    op : str
    shape : sequence of int
        The first input's shape.
    other : sequence of int
        The second input's shape, if the op has one.
    """
    b = GraphBuilder()
    x = b.input(shape, dtype, name="x")
    if op == "ReduceSum":
        b.output(b.reduce_sum(x, axes=(-1,), keep_dims=True))
    else:
        b.output(b.op(op, x, *([] if op == "ReLU" else [b.input(other, dtype, name="y")])))
    return b


def strides(
    dtype: str = "f32", *, op: str = "ReLU", steps: Sequence[int] = (16, 1)
) -> GraphBuilder:
    """Build an op with an input of 4x16 elements and given strides.

    Parameters
    ----------
    dtype : str
    op : str
        ``ReLU`` or ``MatMul``.
    steps : sequence of int
        The strides, in elements.
    """
    b = GraphBuilder()
    x = b.input((4, 16), dtype, name="x", strides=steps)
    b.output(b.matmul(x, b.input((16, 8), dtype)) if op == "MatMul" else b.op(op, x))
    return b


def quantize_dequantize(
    dtype: str = "u8", *, qtype: str = "per_tensor", zero_point: int | None = 0
) -> GraphBuilder:
    """Build Quantize and Dequantize with the same scales and zero points.

    Parameters
    ----------
    dtype : str
        The data type between the two ops.
    qtype : str
    zero_point : int, optional
        The zero point of all channels; by default the attribute is not set.
    """
    b = GraphBuilder()
    count = 1 if qtype == "per_tensor" else 16
    # Not a power of two, so that both ops round.
    attrs: dict[str, Any] = {
        "scales": [0.03 * (i + 1) for i in range(count)],
        "qtype": qtype,
        "axis": 1,
    }
    if zero_point is not None:
        attrs["zps"] = [zero_point] * count
    stored = b.op("Quantize", b.input((4, 16), name="x"), outputs=[(None, dtype)], **attrs)
    b.output(b.op("Dequantize", stored, **attrs))
    return b


def type_cast_there_and_back(dtype: str = "bf16", *, start: str = "f32") -> GraphBuilder:
    """Build a TypeCast, and another back to the first type.

    Parameters
    ----------
    dtype : str
        The data type between the two ops.
    start : str
        The data type of input and result.
    """
    b = GraphBuilder()
    x = b.input((4, 16), start, name="x")
    b.output(b.type_cast(b.type_cast(x, dtype=dtype), dtype=start))
    return b


def _quantize_cases(dtype: str) -> tuple[Case, ...]:
    floating = dtype.startswith("f8")
    refused = (
        Deviation(
            None,
            "a single op with scales per channel and zero points not 0 does not compile",
        ),
    )
    return tuple(
        Case(
            f"{qtype.replace('_', ' ')}, "
            + ("no zero points" if zero_point is None else f"zero point {zero_point}"),
            dtype,
            {"dtype": dtype, "qtype": qtype, "zero_point": zero_point},
            partitions=None if floating and zero_point is not None else 2,
            deviations=refused if zero_point and qtype == "per_channel" and not floating else (),
        )
        for qtype in ("per_tensor", "per_channel")
        for zero_point in ((None, 3) if floating else (None, 0, 3))
    )


_NO_INNER_DIM = (
    Deviation(None, "a MatMul over an inner dim of 0 does not write its result", until=(3, 13)),
    Deviation(None, "a MatMul over an inner dim of 0 does not compile", since=(3, 13)),
)

PATTERNS: tuple[Pattern, ...] = (
    *data_types.PATTERNS,
    Pattern(
        "LT-any",
        "layout any",
        "data model",
        "The library chooses the layout of tensors between compiled partitions. A partition is "
        "compiled with it for its outputs.",
        _PAGE,
        layout_any,
        in_floats("between two partitions", partitions=2),
    ),
    Pattern(
        "LT-strided",
        "layout strided",
        "data model",
        "A public layout: the element at (i, j, k) is at i * s0 + j * s1 + k * s2.",
        _PAGE,
        layout_strided,
        tuple(
            case
            for op in ("ReLU", "Reorder", "MatMul")
            for name, order in (
                ("row-major", (0, 1, 2, 3)),
                ("channels last", (0, 2, 3, 1)),
                ("heads inside", (0, 2, 1, 3)),
                ("last two swapped", (0, 1, 3, 2)),
                ("all reversed", (3, 2, 1, 0)),
            )
            for case in in_floats(f"{op}, {name}", op=op, order=order)
        ),
    ),
    Pattern(
        "LT-opaque",
        "layout opaque",
        "data model",
        "Only compiled partitions make this layout, and only other partitions can read it.",
        _PAGE,
        layout_opaque,
        in_floats("constant weights"),
    ),
    Pattern(
        "LT-undef",
        "layout undef",
        "data model",
        "A tensor can have it only while the graph is built; partitions are not compiled with it.",
        _PAGE,
        layout_undef,
        in_floats("inside of a partition"),
    ),
    Pattern(
        "DM-dim-unknown",
        "unknown dims",
        "data model",
        "A dim may be unknown while the graph is built; inputs' dims must be known to compile it.",
        _PAGE,
        unknown_dims,
        (
            *in_floats("MatMul, rows"),
            *in_floats("Add, rows", op="Add"),
            *in_floats("Add, all", op="Add", known=0),
            *in_floats("Convolution, batch", op="Convolution", known=3),
            *in_floats("Convolution, batch and spatial", op="Convolution"),
        ),
    ),
    Pattern(
        "DM-ndims-unknown",
        "unknown number of dims",
        "data model",
        "Compiling a partition infers an output's dims; the inputs' must be known by then.",
        _PAGE,
        unknown_ndims,
        (
            *in_floats("output"),
            Case("input", "f32", {"of": "input"}, partitions=None),
        ),
    ),
    Pattern(
        "DM-scalar-/-zero-dims",
        "scalars, dims of 0",
        "data model",
        "A tensor without dims has one element. A tensor with a dim of 0 has no elements, so there "
        "is nothing to compute.",
        _PAGE,
        scalars_and_zero_dims,
        (
            *in_floats("ReLU of a scalar"),
            *in_floats("Add of scalars", op="Add"),
            *in_floats("Add of a scalar", op="Add", shape=(4, 16)),
            *in_floats("ReLU of 0 rows", shape=(0, 16)),
            *in_floats("Add of 0 columns", op="Add", shape=(4, 0), other=(4, 0)),
            *in_floats("MatMul of 0 rows", op="MatMul", shape=(0, 16), other=(16, 8)),
            *in_floats("ReduceSum of nothing", op="ReduceSum", shape=(4, 0)),
            *in_floats(
                "MatMul of an inner dim of 0",
                op="MatMul",
                shape=(4, 0),
                other=(0, 8),
                deviations=_NO_INNER_DIM,
            ),
        ),
    ),
    Pattern(
        "DM-strides",
        "strides",
        "data model",
        "Strides count elements, one for each dim; elements must not share memory.",
        _PAGE,
        strides,
        (
            *in_floats("row-major"),
            *in_floats("gaps behind rows", steps=(24, 1)),
            *in_floats("gaps between columns", steps=(32, 2)),
            *in_floats("column-major", steps=(1, 4)),
            *in_floats("MatMul, gaps behind rows", op="MatMul", steps=(24, 1)),
            *in_floats("MatMul, column-major", op="MatMul", steps=(1, 4)),
            Case("too few", "f32", {"steps": (1,)}, partitions=None),
            Case("negative", "f32", {"steps": (-16, 1)}, partitions=None),
            Case("rows over each other", "f32", {"steps": (8, 1)}, partitions=None),
        ),
    ),
    Pattern(
        "DM-Quantize/Dequantize",
        "Quantize + Dequantize",
        "data model",
        "oneDNN does not remove a pair with equal scales and zero points, since it changes "
        "numbers. Scales and zero points have one dim, with 1 element or one for each channel.",
        _PRECISION_PAGE,
        quantize_dequantize,
        tuple(
            case for dtype in ("u8", "s8", "f8_e5m2", "f8_e4m3") for case in _quantize_cases(dtype)
        ),
    ),
    Pattern(
        "DM-TypeCast",
        "TypeCast + TypeCast",
        "data model",
        "The casts from f32 to bf16 or f16 and back are exact conversions; oneDNN removes neither. "
        "One of the two types is f32.",
        _PRECISION_PAGE,
        type_cast_there_and_back,
        (
            Case("f32 and back", "bf16", {"dtype": "bf16"}, partitions=2),
            Case("f32 and back", "f16", {"dtype": "f16"}, partitions=2),
            Case("back again", "bf16", {"dtype": "f32", "start": "bf16"}, partitions=2),
            Case("back again", "f16", {"dtype": "f32", "start": "f16"}, partitions=2),
            Case("bf16 to f16", "bf16 f16", {"dtype": "f16", "start": "bf16"}, partitions=None),
            Case("to itself", "f32", {"dtype": "f32"}, partitions=None),
        ),
    ),
)
"""The rows of the data model."""

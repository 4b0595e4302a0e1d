"""Fusion patterns of floating point for inference, except for attention and gated MLP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import in_floats, kernels_of, with_epilogues
from ._epilogue import UNARY, drawn, epilogue
from .pattern import Case, Deviation, Pattern

__all__ = ["PATTERNS"]

Ops = Sequence[str]
Bias = Literal["input", "BiasAdd"] | None

_FUSIONS = "graph/fusion_patterns/"
_CHANNELS = 16
_SPATIAL = (10, 10)
_WINDOW: Mapping[str, Any] = {
    "strides": (1, 1),
    "pads_begin": (1, 1),
    "pads_end": (1, 1),
    "dilations": (1, 1),
}
_POINT: Mapping[str, Any] = {**_WINDOW, "pads_begin": (0, 0), "pads_end": (0, 0)}


def _source(b: GraphBuilder, dtype: str, data_format: str = "NCX") -> Value:
    last = data_format == "NXC"
    shape = (2, *_SPATIAL, _CHANNELS) if last else (2, _CHANNELS, *_SPATIAL)
    return b.input(shape, dtype, name="src")


def _channel_axis(data_format: str) -> int:
    return -1 if data_format == "NXC" else 1


def _batch_norm(x: Value, data_format: str = "NCX") -> Value:
    b = x.builder
    like_one = [b.constant(abs(drawn(i, (_CHANNELS,))) + 0.5) for i in (11, 12)]
    like_zero = [b.constant(drawn(i, (_CHANNELS,), 0.1)) for i in (13, 14)]
    made: Value = b.op(
        "BatchNormInference", x, like_one[0], like_zero[0], like_zero[1], like_one[1],
        epsilon=1e-5, data_format=data_format,
    )  # fmt: skip
    return made


def convolution(
    dtype: str = "f32",
    bias: Bias = None,
    batch_norm: bool = False,
    post_ops: Ops = (),
    depthwise: bool = False,
    dst: str | None = None,
    data_format: str = "NCX",
) -> GraphBuilder:
    """Build Convolution + BiasAdd? + BatchNormInference? + [Unary | Binary]{0-n} + TypeCast?.

    With `depthwise`, the first Convolution has a kernel of 1x1; a depthwise one of 3x3 and the same
    post-ops follow it.
    """
    b = GraphBuilder()
    kernel = (1, 1) if depthwise else (3, 3)
    weights = drawn(0, (_CHANNELS, _CHANNELS, *kernel), 0.1)
    inputs = [_source(b, dtype, data_format), b.constant(weights, dtype)]
    added = b.constant(drawn(1, (_CHANNELS,)), dtype) if bias else None
    if added is not None and bias == "input":
        inputs.append(added)
    window = _POINT if depthwise else _WINDOW
    y = b.op("Convolution", *inputs, **window, data_format=data_format, weights_format="OIX")
    if added is not None and bias == "BiasAdd":
        y = b.op("BiasAdd", y, added, data_format=data_format)
    if batch_norm:
        y = _batch_norm(y, data_format)
    y = epilogue(y, post_ops, axis=_channel_axis(data_format))
    if depthwise:
        each = b.constant(drawn(2, (_CHANNELS, 1, 3, 3), 0.3), dtype)
        y = b.op(
            "Convolution", y, each, **_WINDOW, groups=_CHANNELS, data_format=data_format,
            weights_format="OIX",
        )  # fmt: skip
        y = epilogue(y, post_ops, axis=_channel_axis(data_format))
    b.output(y if dst is None else b.op("TypeCast", y, outputs=[(None, dst)]))
    return b


def conv_transpose(
    dtype: str = "f32",
    bias: Bias = None,
    post_ops: Ops = (),
    groups: int = 1,
    data_format: str = "NCX",
) -> GraphBuilder:
    """Build ConvTranspose + BiasAdd? + [Unary | Binary]{0-n}."""
    b = GraphBuilder()
    weights = drawn(0, (_CHANNELS, _CHANNELS // groups, 3, 3), 0.1)
    inputs = [_source(b, dtype, data_format), b.constant(weights, dtype)]
    added = b.constant(drawn(1, (_CHANNELS,)), dtype) if bias else None
    if added is not None and bias == "input":
        inputs.append(added)
    y = b.op(
        "ConvTranspose", *inputs, **{**_WINDOW, "strides": (2, 2)}, groups=groups,
        data_format=data_format, weights_format="IOX",
    )  # fmt: skip
    if added is not None and bias == "BiasAdd":
        y = b.op("BiasAdd", y, added, data_format=data_format)
    b.output(epilogue(y, post_ops, axis=_channel_axis(data_format)))
    return b


def interpolate(
    dtype: str = "f32",
    mode: str = "nearest",
    by: str = "scales",
    post_ops: Ops = (),
    data_format: str = "NCX",
) -> GraphBuilder:
    """Build Interpolate + [Unary | Binary]{0-n}."""
    b = GraphBuilder()
    target = {"scales": (2.0, 2.0)} if by == "scales" else {"sizes": tuple(2 * n for n in _SPATIAL)}
    y = b.op(
        "Interpolate", _source(b, dtype, data_format), mode=mode, data_format=data_format,
        coordinate_transformation_mode="half_pixel", **target,
    )  # fmt: skip
    b.output(epilogue(y, post_ops, axis=_channel_axis(data_format)))
    return b


def matmul(
    dtype: str = "f32",
    bias: Bias = None,
    post_ops: Ops = (),
    select: Literal[1, 2] | None = None,
    dst: str | None = None,
    transpose_b: bool = False,
) -> GraphBuilder:
    """Build MatMul + BiasAdd? + [Unary | Binary]{0-n} + Select? + TypeCast?.

    `select` is the index of Select's input for the result, from 0. With `dst`, MatMul makes f32.
    """
    b = GraphBuilder()
    shape = (24, 32) if transpose_b else (32, 24)
    inputs = [b.input((4, 16, 32), dtype, name="src"), b.constant(drawn(0, shape, 0.2), dtype)]
    between = dtype if dst is None else "f32"
    added = b.constant(drawn(1, (24,)), dtype if bias == "input" else between) if bias else None
    if added is not None and bias == "input":
        inputs.append(added)
    y = b.op("MatMul", *inputs, transpose_b=transpose_b, outputs=[(None, between)])
    if added is not None and bias == "BiasAdd":
        y = b.op("BiasAdd", y, added, data_format="NXC")
    y = epilogue(y, post_ops)
    if select is not None:
        condition = b.input(y.shape, "boolean", name="cond")
        other = b.constant([-1.0], y.dtype)
        y = b.op("Select", condition, *((y, other) if select == 1 else (other, y)))
    b.output(y if dst is None else b.op("TypeCast", y, outputs=[(None, dst)]))
    return b


def reduction(
    dtype: str = "f32", kind: str = "ReduceSum", keep_dims: bool = True, post_ops: Ops = ()
) -> GraphBuilder:
    """Build Reduction + [Unary | Binary]{0-n}."""
    b = GraphBuilder()
    y = b.op(kind, b.input((4, 16, 12), dtype, name="src"), axes=[1], keep_dims=keep_dims)
    b.output(epilogue(y, post_ops))
    return b


def unary(dtype: str = "f32", kind: str = "Sigmoid", post_ops: Ops = ()) -> GraphBuilder:
    """Build Unary + Binary{0-n}."""
    b = GraphBuilder()
    y = b.op(kind, _source(b, dtype), **UNARY[kind])
    b.output(epilogue(y, post_ops, axis=1))
    return b


def binary(
    dtype: str = "f32", src_1: str | None = None, kind: str = "Multiply", post_ops: Ops = ()
) -> GraphBuilder:
    """Build Binary + [Unary | Binary]{0-n}; `src_1` is the second operand's data type."""
    b = GraphBuilder()
    x = _source(b, dtype)
    y = b.op(kind, x, b.input(x.shape, src_1 or dtype, name="src_1"), outputs=[(None, dtype)])
    b.output(epilogue(y, post_ops, axis=1))
    return b


def pool(
    dtype: str = "f32", kind: str = "MaxPool", post_ops: Ops = (), data_format: str = "NCX"
) -> GraphBuilder:
    """Build [AvgPool | MaxPool] + [Unary | Binary]{0-n}."""
    b = GraphBuilder()
    own = {"exclude_pad": False} if kind == "AvgPool" else {"dilations": (1, 1)}
    y = b.op(
        kind, _source(b, dtype, data_format), kernel=(2, 2), strides=(2, 2), pads_begin=(0, 0),
        pads_end=(0, 0), data_format=data_format, **own,
    )  # fmt: skip
    b.output(epilogue(y, post_ops, axis=_channel_axis(data_format)))
    return b


def batch_norm_relu(dtype: str = "f32", relu: bool = True) -> GraphBuilder:
    """Build BatchNormInference + ReLU?."""
    b = GraphBuilder()
    y = _batch_norm(_source(b, dtype))
    b.output(b.op("ReLU", y) if relu else y)
    return b


def reciprocal_multiply(dtype: str = "f32", operand: Literal[0, 1] = 1) -> GraphBuilder:
    """Build Reciprocal + Multiply; `operand` is the reciprocal's index in Multiply's inputs."""
    b = GraphBuilder()
    x = _source(b, dtype)
    factor = b.op("Reciprocal", b.input(x.shape, dtype, name="divisor"))
    b.output(b.op("Multiply", *((x, factor) if operand else (factor, x))))
    return b


def reorder_add(dtype: str = "f32", auto_broadcast: str = "none") -> GraphBuilder:
    """Build Reorder + Add."""
    b = GraphBuilder()
    n, c, (h, w) = 2, _CHANNELS, _SPATIAL
    x = b.input((n, c, h, w), dtype, name="src", strides=(h * w * c, 1, w * c, c))
    y = b.op("Reorder", x)
    other = b.input(x.shape, dtype, name="other")
    b.output(b.op("Add", y, other, auto_broadcast=auto_broadcast))
    return b


_EPILOGUE = "then Unary and Binary ops in any order: up to 3 in 3.7's documents, 20 in 3.13's"
_BINARY_FIRST = (Deviation(2, "oneDNN first fuses two Binary ops into their own partition"),)
_ONE_TYPE = "All tensors have one data type, f32, bf16 or f16"

PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "FP-05",
        "Convolution + BiasAdd? + BatchNormInference? + [Unary | Binary]{0-n} + TypeCast?",
        "floating point",
        f"At most one BiasAdd, only if the Convolution has no bias input; at most one "
        f"BatchNormInference; {_EPILOGUE}. On CPU a depthwise Convolution may follow a 1x1 one. "
        f"{_ONE_TYPE}; a final TypeCast is from bf16 to f32.",
        _FUSIONS + "convolution_fusion_patterns",
        convolution,
        (
            *with_epilogues(),
            *in_floats("bias input", bias="input"),
            *in_floats("BiasAdd", bias="BiasAdd"),
            *in_floats("BatchNormInference", batch_norm=True),
            *in_floats("BiasAdd + BatchNormInference", bias="BiasAdd", batch_norm=True),
            *in_floats(
                "BiasAdd + BatchNormInference + 3 post-ops",
                bias="BiasAdd",
                batch_norm=True,
                post_ops=("Add:residual", "ReLU", "Multiply:scalar"),
            ),
            *in_floats("Add + ReLU, NXC", post_ops=("Add", "ReLU"), data_format="NXC"),
            *in_floats("depthwise behind 1x1", depthwise=True),
            *in_floats("depthwise behind 1x1, ReLU", depthwise=True, post_ops=("ReLU",)),
            Case(
                "TypeCast",
                "bf16 -> f32",
                {"dtype": "bf16", "post_ops": ("ReLU",), "dst": "f32"},
                kernels=kernels_of("bf16"),
            ),
        ),
    ),
    Pattern(
        "FP-06",
        "ConvTranspose + BiasAdd? + [Unary | Binary]{0-n}",
        "floating point",
        f"At most one BiasAdd, only if the ConvTranspose has no bias input; {_EPILOGUE}. "
        f"{_ONE_TYPE}.",
        _FUSIONS + "convtranspose_fusions_patterns",
        conv_transpose,
        (
            *with_epilogues(),
            *in_floats("bias input", bias="input"),
            *in_floats("BiasAdd", bias="BiasAdd"),
            *in_floats("Add + ReLU, NXC", post_ops=("Add", "ReLU"), data_format="NXC"),
            *in_floats("BiasAdd + ReLU, 2 groups", bias="BiasAdd", post_ops=("ReLU",), groups=2),
        ),
    ),
    Pattern(
        "FP-07",
        "Interpolate + [Unary | Binary]{0-n}",
        "floating point",
        f"Interpolate, {_EPILOGUE}. Source and destination have one data type, f32, bf16 or f16; "
        "coordinates are transformed by half_pixel.",
        _FUSIONS + "interpolate_fusion_patterns",
        interpolate,
        (
            *with_epilogues(),
            *in_floats("linear", mode="linear", post_ops=("ReLU",)),
            *in_floats("bilinear", mode="bilinear", post_ops=("ReLU",)),
            *in_floats("Add + ReLU, NXC", post_ops=("Add", "ReLU"), data_format="NXC"),
            *in_floats("sizes", by="sizes", post_ops=("ReLU",)),
        ),
    ),
    Pattern(
        "FP-08",
        "MatMul + BiasAdd? + [Unary | Binary]{0-n} + Select? + TypeCast?",
        "floating point",
        f"At most one BiasAdd, only if the MatMul has no bias input; {_EPILOGUE}; at most one "
        f"Select, at the end. {_ONE_TYPE}; 3.13 documents the epilogue only in f32, with a "
        "TypeCast of its result to bf16 or f16.",
        _FUSIONS + "matmul_fusion_patterns",
        matmul,
        (
            *with_epilogues(),
            *in_floats("bias input", bias="input"),
            *in_floats("BiasAdd", bias="BiasAdd", transpose_b=True),
            *in_floats("Select", select=2),
            *in_floats("BiasAdd + ReLU + Select", bias="BiasAdd", post_ops=("ReLU",), select=2),
            *in_floats(
                "Select of the result where true",
                select=1,
                deviations=(
                    Deviation(
                        2, "Select is fused only if the result is its last input", until=(3, 13)
                    ),
                ),
            ),
            *(
                Case(
                    "BiasAdd + ReLU + TypeCast",
                    f"{d} -> f32 -> {d}",
                    {"dtype": d, "bias": "BiasAdd", "post_ops": ("ReLU",), "dst": d},
                    kernels=kernels_of(d),
                    needs=(3, 8),
                )
                for d in ("bf16", "f16")
            ),
        ),
    ),
    Pattern(
        "FP-09",
        "Reduction + [Unary | Binary]{0-n}",
        "floating point",
        f"A reduction, with or without keep_dims, {_EPILOGUE}. {_ONE_TYPE}.",
        _FUSIONS + "reduction_fusion_patterns",
        reduction,
        (
            *with_epilogues(),
            *in_floats("keep_dims false", keep_dims=False, post_ops=("Add", "ReLU")),
            *in_floats("ReduceMean + Square", kind="ReduceMean", post_ops=("Square",)),
        ),
    ),
    Pattern(
        "FP-10",
        "Unary + Binary{0-n}",
        "floating point",
        "A Unary op, then Binary ops: up to 3 in 3.7's documents; in 3.13's up to 20 of either "
        f"category. {_ONE_TYPE}.",
        _FUSIONS + "unary_fusion_patterns",
        unary,
        (
            *in_floats("no post-op"),
            *in_floats("Add", post_ops=("Add",)),
            *in_floats("Multiply:residual", post_ops=("Multiply:residual",)),
            *in_floats("2 Binary", post_ops=("Multiply", "Add"), deviations=_BINARY_FIRST),
            *in_floats(
                "3 Binary", post_ops=("Multiply", "Add", "Maximum"), deviations=_BINARY_FIRST
            ),
        ),
    ),
    Pattern(
        "FP-11",
        "Binary + [Unary | Binary]{0-n}",
        "floating point",
        f"A Binary op, {_EPILOGUE}. {_ONE_TYPE}; from 3.8 on operands may have different types.",
        _FUSIONS + "binary_fusion_patterns",
        binary,
        (
            *with_epilogues(),
            *(
                Case(
                    "mixed operands",
                    f"{d} {other} -> {d}",
                    {"dtype": d, "src_1": other, "post_ops": ("ReLU",)},
                    kernels=kernels_of(d, other),
                    needs=(3, 8),
                )
                for d, other in (("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32"))
            ),
        ),
    ),
    Pattern(
        "FP-12",
        "[AvgPool | MaxPool] + [Unary | Binary]{0-n}",
        "floating point",
        "Pooling, then Binary ops, up to 3 in 3.7's documents; in 3.13's up to 20 of either "
        f"category. {_ONE_TYPE}; AvgPool must not both round up and count the padding.",
        _FUSIONS + "pool_fusion_patterns",
        pool,
        (
            *with_epilogues(),
            *in_floats("AvgPool", kind="AvgPool"),
            *in_floats("ReLU, NXC", post_ops=("ReLU",), data_format="NXC"),
            *in_floats("AvgPool + Add + Multiply", kind="AvgPool", post_ops=("Add", "Multiply")),
            *in_floats("AvgPool + Add, NXC", kind="AvgPool", post_ops=("Add",), data_format="NXC"),
        ),
    ),
    Pattern(
        "FP-13",
        "BatchNormInference + ReLU",
        "floating point",
        "At most one ReLU. Source and destination are f32, bf16 or f16; the parameters are f32.",
        _FUSIONS + "norm_fusion_patterns",
        batch_norm_relu,
        (*in_floats("no ReLU", relu=False), *in_floats("ReLU")),
    ),
    Pattern(
        "FP-14",
        "Reciprocal + Multiply",
        "floating point",
        f"The reciprocal is either operand. {_ONE_TYPE}. 3.13's documents no longer have it.",
        _FUSIONS + "fusion_patterns",
        reciprocal_multiply,
        (
            *in_floats("second operand", operand=1),
            *in_floats("first operand", operand=0),
        ),
    ),
    Pattern(
        "FP-15",
        "Reorder + Add",
        "floating point",
        f"Reorder changes only the layout. {_ONE_TYPE}.",
        _FUSIONS + "fusion_patterns",
        reorder_add,
        (
            *in_floats("auto_broadcast none"),
            *in_floats(
                "auto_broadcast numpy",
                auto_broadcast="numpy",
                deviations=(
                    Deviation(2, "Reorder and Add are fused only with auto_broadcast none"),
                ),
            ),
        ),
    ),
)
"""FP-05 to FP-15."""

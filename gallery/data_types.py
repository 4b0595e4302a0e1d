"""Each data type of the data model, with ops that support it."""

from __future__ import annotations

import numpy as np

from onednn_graph_py.base.errors import InvalidArgumentsError
from onednn_graph_py.model.building.builder import GraphBuilder
from onednn_graph_py.model.building.value import Value

from ._cases import kernels_of
from .pattern import Build, Case, Deviation, Pattern

__all__ = ["PATTERNS"]

_SHAPE = (4, 16)
_PAGE = "graph/programming_model/graph_basic_concepts"


def _of_one(made: Value) -> GraphBuilder:
    made.builder.output(made)
    return made.builder


def _no_such(form: str, forms: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(f"form must be one of {forms}, got {form!r}")


def data_type_undef() -> GraphBuilder:
    """Build an op whose tensors have no data type."""
    b = GraphBuilder()
    return _of_one(b.relu(b.input(_SHAPE, "undef")))


def _floating(dtype: str, form: str) -> GraphBuilder:
    b = GraphBuilder()
    if form == "from f32":
        return _of_one(b.type_cast(b.input(_SHAPE), dtype=dtype))
    x = b.input(_SHAPE, dtype)
    if form == "to f32":
        return _of_one(b.type_cast(x, dtype="f32"))
    if form == "ReLU":
        return _of_one(b.relu(x))
    if form == "MatMul":
        return _of_one(b.matmul(x, b.input((16, 8), dtype)))
    if form == "Reorder":
        return _of_one(b.reorder(x))
    raise _no_such(form, "ReLU, MatMul, Reorder, from f32, to f32")


def data_type_f32(form: str = "ReLU") -> GraphBuilder:
    """Build an op of f32."""
    return _floating("f32", form)


def data_type_bf16(form: str = "ReLU") -> GraphBuilder:
    """Build an op of bf16."""
    return _floating("bf16", form)


def data_type_f16(form: str = "ReLU") -> GraphBuilder:
    """Build an op of f16."""
    return _floating("f16", form)


def _dequantized(b: GraphBuilder, shape: tuple[int, ...], dtype: str) -> Value:
    made: Value = b.dequantize(b.input(shape, dtype), scales=[0.05], qtype="per_tensor")
    return made


def _quantized(dtype: str, form: str) -> GraphBuilder:
    b = GraphBuilder()
    if form == "Quantize":
        return _of_one(b.quantize(b.input(_SHAPE), scales=[0.05], qtype="per_tensor", dtype=dtype))
    if form == "Dequantize":
        return _of_one(_dequantized(b, _SHAPE, dtype))
    if form == "MatMul":
        # A MatMul reads u8 only as the source; its weights are s8.
        weights = "s8" if dtype == "u8" else dtype
        return _of_one(b.matmul(_dequantized(b, _SHAPE, dtype), _dequantized(b, (16, 8), weights)))
    raise _no_such(form, "Quantize, Dequantize, MatMul")


def data_type_s8(form: str = "Quantize") -> GraphBuilder:
    """Build an op that makes or reads s8."""
    return _quantized("s8", form)


def data_type_u8(form: str = "Quantize") -> GraphBuilder:
    """Build an op that makes or reads u8."""
    return _quantized("u8", form)


def data_type_f8_e5m2(form: str = "Quantize") -> GraphBuilder:
    """Build an op that makes or reads f8_e5m2."""
    return _quantized("f8_e5m2", form)


def data_type_f8_e4m3(form: str = "Quantize") -> GraphBuilder:
    """Build an op that makes or reads f8_e4m3."""
    return _quantized("f8_e4m3", form)


def data_type_s32(form: str = "zero points") -> GraphBuilder:
    """Build an op with s32 as zero points, indices or numbers to compare."""
    b = GraphBuilder()
    if form == "zero points":
        scales, zps = b.input((1,), name="scales"), b.input((1,), "s32", name="zps")
        return _of_one(
            b.dynamic_quantize(b.input(_SHAPE), scales, zps, qtype="per_tensor", dtype="u8")
        )
    if form == "indices":
        return _of_one(b.gen_index(b.input(_SHAPE), axis=1))
    if form == "comparison":
        columns, rows = (b.gen_index(b.input(_SHAPE), axis=axis) for axis in (1, 0))
        return _of_one(b.greater_equal(columns, rows))
    raise _no_such(form, "zero points, indices, comparison")


def data_type_boolean(form: str = "condition") -> GraphBuilder:
    """Build a Select with a boolean condition, or a comparison."""
    b = GraphBuilder()
    x, y = b.input(_SHAPE), b.input(_SHAPE)
    if form == "condition":
        return _of_one(b.select(b.input(_SHAPE, "boolean"), x, y))
    if form == "comparison":
        return _of_one(b.greater_equal(x, y))
    raise _no_such(form, "condition, comparison")


def _four_bits(dtype: str, form: str) -> GraphBuilder:
    b = GraphBuilder()
    weights = b.input((16, 8), dtype, name="weights")
    if form == "per channel":
        return _of_one(
            b.dynamic_dequantize(weights, b.input((8,), name="scales"), qtype="per_channel", axis=1)
        )
    if form == "per group, zero points":
        return _of_one(
            b.dynamic_dequantize(
                weights,
                b.input((4, 8), name="scales"),
                b.input((4, 8), dtype, name="zps"),
                qtype="per_group",
                group_shape=(4, 1),
            )
        )
    raise _no_such(form, "per channel; per group, zero points")


def data_type_s4(form: str = "per channel") -> GraphBuilder:
    """Build a DynamicDequantize of 4-bit integers, two to a byte."""
    return _four_bits("s4", form)


def data_type_u4(form: str = "per channel") -> GraphBuilder:
    """Build a DynamicDequantize of 4-bit integers, two to a byte."""
    return _four_bits("u4", form)


def data_type_s64() -> GraphBuilder:
    """Build a Dropout, whose seed and offset are s64."""
    b = GraphBuilder()
    seed, offset = (b.constant(np.array([n]), "s64") for n in (7, 3))
    return _of_one(b.dropout(b.input(_SHAPE), seed, offset, b.constant([0.5], "f32")))


def _row(dtype: str, rule: str, build: Build, *cases: Case) -> Pattern:
    return Pattern(f"DT-{dtype}", f"data type {dtype}", "data model", rule, _PAGE, build, cases)


def _cases(dtype: str, *forms: str, kernels: tuple[str, ...] = ()) -> tuple[Case, ...]:
    return tuple(Case(form, dtype, {"form": form}, kernels=kernels) for form in forms)


PATTERNS: tuple[Pattern, ...] = (
    _row(
        "undef",
        "Only an empty logical tensor has it; no op supports it.",
        data_type_undef,
        Case("ReLU", "undef", partitions=None),
    ),
    _row(
        "f32",
        "32 bits, as in IEEE 754.",
        data_type_f32,
        *_cases("f32", "ReLU", "MatMul", "Reorder"),
    ),
    _row(
        "bf16",
        "The upper 16 bits of an f32; TypeCast converts from and to f32.",
        data_type_bf16,
        *_cases("bf16", "ReLU", "MatMul", "Reorder", kernels=kernels_of("bf16")),
        *_cases("bf16", "from f32", "to f32", kernels=kernels_of("bf16")),
    ),
    _row(
        "f16",
        "16 bits, as in IEEE 754; TypeCast converts from and to f32.",
        data_type_f16,
        *_cases("f16", "ReLU", "MatMul", kernels=kernels_of("f16")),
        # These two only move and convert data, which needs no f16 instructions.
        *_cases("f16", "Reorder", "from f32", "to f32"),
    ),
    _row(
        "s32",
        "32 bits with sign: zero points, indices, shapes.",
        data_type_s32,
        *_cases("s32", "zero points", "indices"),
        Case("comparison", "s32", {"form": "comparison"}, partitions=3),
    ),
    _row(
        "s8",
        "8 bits with sign; Quantize makes it and Dequantize reads it.",
        data_type_s8,
        *_cases("s8", "Quantize", "Dequantize", "MatMul"),
    ),
    _row(
        "u8",
        "8 bits without sign; Quantize makes it and Dequantize reads it.",
        data_type_u8,
        *_cases("u8", "Quantize", "Dequantize", "MatMul"),
    ),
    _row(
        "boolean",
        "Select's condition and GreaterEqual's result; a byte for each element.",
        data_type_boolean,
        *_cases("boolean", "condition", "comparison"),
    ),
    *(
        _row(
            dtype,
            f"8-bit floating point, {bits}; Quantize makes it and Dequantize reads it, without "
            "zero points.",
            build,
            *_cases(dtype, "Quantize", "Dequantize"),
            *_cases(dtype, "MatMul", kernels=kernels_of(dtype)),
        )
        for dtype, bits, build in (
            ("f8_e5m2", "5 bits of exponent and 2 of mantissa", data_type_f8_e5m2),
            ("f8_e4m3", "4 bits of exponent and 3 of mantissa", data_type_f8_e4m3),
        )
    ),
    *(
        _row(
            dtype,
            f"4 bits {sign} sign, two to a byte; only DynamicDequantize reads it.",
            build,
            *_cases(dtype, "per channel", "per group, zero points"),
        )
        for dtype, sign, build in (("s4", "with", data_type_s4), ("u4", "without", data_type_u4))
    ),
    _row(
        "s64",
        "64 bits with sign: the seed and the offset of Dropout.",
        data_type_s64,
        Case(
            "Dropout",
            "s64",
            needs=(3, 12),
            deviations=(Deviation(None, "Dropout alone is not supported on a CPU"),),
        ),
    ),
)
"""The family's rows."""

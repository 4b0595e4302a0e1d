"""Blocks of several ops, each in the form that the linked oneDNN fuses into one partition.

Attention (`sdpa`), gated MLP, linear layers, convolution with batch norm, quantization. A block
adds ops to the builder of its first argument and returns their result; it computes nothing itself.

Wherever a block takes an array, it becomes a constant of the data type that the block needs. That
a partition is fused says nothing about its kernels: some are refused when it is compiled, and the
docstrings tell which. What they say of versions was measured on a CPU with 3.7.2 (OpenMP) and
3.13.2 (SYCL).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .builder import GraphBuilder, Value
from .errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidShapeError,
    UnimplementedError,
)
from .ops.call import shape_text
from .ops.check import linked_version

__all__ = ["conv_bn_relu", "dequantize", "gated_mlp", "linear", "quantize", "sdpa"]

Array = npt.NDArray[Any]
_FLOATS = ("f32", "bf16", "f16")
_INTEGERS = ("s8", "u8", "s4", "u4")
_EIGHT_BITS = ("u8", "s8", "f8_e5m2", "f8_e4m3")

_ACTIVATIONS = {
    "elu": "Elu",
    "gelu": "GELU",
    "hard_swish": "HardSwish",
    "mish": "Mish",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
}
_ACTIVATION_ATTRS: dict[str, dict[str, Any]] = {"Elu": {"alpha": 1.0}}


# -- arguments


def _need_value(block: str, argument: str, given: Any) -> Value:
    if not isinstance(given, Value):
        raise TypeError(f"{block}: {argument} must be a Value, got {type(given).__name__}")
    return given


def _operand(
    block: str, argument: str, b: GraphBuilder, given: Any, dtype: str | None = None
) -> Value:
    """A value of the builder; an array or a number as a constant of the data type."""
    if isinstance(given, Value):
        if given.builder is not b:
            raise InvalidArgumentsError(
                f"{block}: {argument} must belong to the GraphBuilder of the first argument, got "
                f"{given!r} of another one"
            )
        return given
    if isinstance(given, numbers.Real) and not isinstance(given, np.generic):
        given = np.full(1, given)
    try:
        array = np.asarray(given)
    except ValueError as e:
        raise TypeError(f"{block}: {argument} must be a Value or an array: {e}") from None
    if array.dtype.kind in "OUS":
        raise TypeError(
            f"{block}: {argument} must be a Value or an array of numbers, got "
            f"{type(given).__name__}"
        )
    return b.constant(array, dtype)


def _need_type(block: str, argument: str, value: Value, allowed: Sequence[str]) -> None:
    if value.dtype not in allowed:
        raise InvalidDataTypeError(
            f"{block}: {argument} must be {' or '.join(allowed)}, got {value.dtype}"
        )


def _need_rank(block: str, argument: str, value: Value, *ranks: int) -> tuple[int, ...]:
    if value.shape is None or (ranks and len(value.shape) not in ranks):
        wanted = " or ".join(str(r) for r in ranks) or "a known number of"
        raise InvalidShapeError(
            f"{block}: {argument} must have {wanted} dims, got {shape_text(value.shape)}"
        )
    return value.shape


def _need_shape(
    block: str, argument: str, shape: Sequence[int], expected: Sequence[int], meaning: str
) -> None:
    """Each dim is as expected; -1 on either side passes."""
    fits = len(shape) == len(expected) and all(
        -1 in (s, e) or s == e for s, e in zip(shape, expected, strict=True)
    )
    if not fits:
        raise InvalidShapeError(
            f"{block}: {argument} must be {meaning} = {shape_text(tuple(expected))}, got "
            f"{shape_text(tuple(shape))}"
        )


def _need_choice(block: str, argument: str, given: Any, allowed: Sequence[Any]) -> None:
    if not any(given is a or (type(given) is type(a) and given == a) for a in allowed):
        raise InvalidArgumentsError(
            f"{block}: {argument} must be one of {', '.join(repr(a) for a in allowed)}, got "
            f"{given!r}"
        )


def _is_decompressed(value: Value) -> bool:
    return value.producer is not None and value.producer.kind == "DynamicDequantize"


def _need_integer_math(block: str, what: str, b: GraphBuilder, dtype: str) -> None:
    """Weights of integers need a math mode that applies to integers.

    Without, 3.7.2 computes wrong results for int4 and neither version compiles the others.
    """
    mode = b.fpmath_mode.name
    wide_enough = dtype == "f32" or mode in (dtype, "any")
    if not getattr(b, "apply_to_int", False) or not wide_enough:
        asked = "strict" if dtype == "f32" else dtype
        raise InvalidArgumentsError(
            f"{block}: {what} needs GraphBuilder(fpmath_mode={asked!r}, apply_to_int=True), got "
            f"fpmath_mode={mode!r}, apply_to_int={getattr(b, 'apply_to_int', False)}"
        )


# -- ops


def _op(
    b: GraphBuilder,
    kind: str,
    *inputs: Any,
    dtype: str | None = None,
    name: str | None = None,
    **attrs: Any,
) -> Value:
    made: Value = b._add(kind, inputs, attrs, dtype=dtype, name=name)
    return made


def _part(name: str | None, part: str) -> str | None:
    """What an inner op of a named block is called."""
    return f"{name}/{part}" if name else None


def _reshape(x: Value, shape: Sequence[int], name: str | None) -> Value:
    return _op(x.builder, "StaticReshape", x, shape=tuple(shape), special_zero=False, name=name)


def _activated(x: Value, activation: str | None, name: str | None) -> Value:
    """The activation of `x`, whose op is called `name`."""
    b = x.builder
    if activation is None:
        return x
    if activation == "silu":
        gate = _op(b, "Sigmoid", x, name=_part(name, "sigmoid"))
        return _op(b, "Multiply", x, gate, name=name)
    kind = _ACTIVATIONS[activation]
    return _op(b, kind, x, name=name, **_ACTIVATION_ATTRS.get(kind, {}))


# -- attention


@dataclass(frozen=True)
class _Heads:
    """The dims of an attention.

    Parameters
    ----------
    batch, heads, kv_heads, queries, keys, size : int
        -1 where unknown; of the heads only for 5 dims.
    regroup : bool
        Whether query heads that share a key are to become a dim of their own.
    rank : int
        Of the query as given.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    regroup: bool
    rank: int

    @property
    def scores(self) -> tuple[int, ...]:
        """The shape of the scores in the query's rank."""
        if self.rank == 4:
            return (self.batch, self.heads, self.queries, self.keys)
        return (self.batch, self.kv_heads, self.heads, self.queries, self.keys)


def _heads_of(query: Value, key: Value, value: Value) -> _Heads:
    q = _need_rank("sdpa", "query", query, 4, 5)
    k = _need_rank("sdpa", "key", key, len(q))
    v = _need_rank("sdpa", "value", value, len(q))
    size = k[-1] if q[-1] == -1 else q[-1]
    if len(q) == 5:
        _need_shape(
            "sdpa", "key", k, (q[0], q[1], 1, -1, size), "(batch, key heads, 1, keys, head size)"
        )
        _need_shape("sdpa", "value", v, (*k[:-1], size), "as key")
        return _Heads(q[0], q[2], q[1], q[3], k[3], size, False, 5)
    if -1 in (q[1], k[1]):
        raise InvalidShapeError(
            "sdpa: the numbers of heads (dim 1) must be known, got query "
            f"{shape_text(q)} and key {shape_text(k)}"
        )
    _need_shape("sdpa", "key", k, (q[0], -1, -1, size), "(batch, key heads, keys, head size)")
    _need_shape("sdpa", "value", v, (*k[:-1], size), "as key")
    if q[1] % k[1]:
        raise InvalidShapeError(
            f"sdpa: the number of heads of key must divide those of query, {q[1]}, got {k[1]}"
        )
    heads = _Heads(q[0], q[1], k[1], q[2], k[2], size, q[1] != k[1], 4)
    for argument, shape in (("query", q), ("key", k), ("value", v)):
        if heads.regroup and shape.count(-1) > 1:
            raise InvalidShapeError(
                f"sdpa: with fewer key heads than query heads, {argument} must have at most one "
                f"unknown dim, got {shape_text(shape)}; inputs of 5 dims may have more"
            )
    return heads


def _floating(
    argument: str, given: Value, dtype: str, scale: Any, zero_point: Any, name: str | None
) -> Value:
    """Key or value in the query's data type."""
    b = given.builder
    if given.dtype in _INTEGERS:
        if scale is None:
            raise InvalidArgumentsError(
                f"sdpa: {argument}_scale must be given for a {argument} of {given.dtype}"
            )
        scales = _operand("sdpa", f"{argument}_scale", b, scale, dtype)
        _need_type("sdpa", f"{argument}_scale", scales, (dtype,))
        return dequantize(given, scales, zero_point, name=_part(name, f"{argument} dequantized"))
    for what, of in (("scale", scale), ("zero_point", zero_point)):
        if of is not None:
            raise InvalidArgumentsError(
                f"sdpa: {argument}_{what} goes with a {argument} of integers, got {given.dtype}"
            )
    return given


def _is_generated(heads: _Heads, causal: str, causal_as: str | None, b: GraphBuilder) -> bool:
    """Whether oneDNN is to make the causal mask from indices; else it is a constant."""
    known = -1 not in (heads.queries, heads.keys)
    can = not heads.regroup and (causal == "top_left" or linked_version() >= (3, 9))
    if causal_as == "indices" and not can:
        if heads.regroup:
            raise InvalidShapeError(
                "sdpa: causal_as='indices' with fewer key heads than query heads needs inputs of 5 "
                "dims, got 4"
            )
        raise UnimplementedError(
            "sdpa: causal_as='indices' for causal='bottom_right' needs oneDNN >= 3.9, linked is "
            + ".".join(str(n) for n in linked_version())
        )
    generated = causal_as == "indices" or (
        causal_as is None and can and (not known or b.engine_kind.name == "gpu")
    )
    if not known and (causal == "bottom_right" or not generated):
        raise InvalidShapeError(
            f"sdpa: causal={causal!r} needs known numbers of queries and keys here, got "
            f"{heads.queries} and {heads.keys}"
        )
    return generated


def _causal_table(heads: _Heads, causal: str) -> Array:
    """What to add to scores: -inf for keys that come after the query."""
    offset = heads.keys - heads.queries if causal == "bottom_right" else 0
    hidden = np.arange(heads.queries)[:, None] + offset < np.arange(heads.keys)
    table = np.where(hidden, np.float32(-np.inf), np.float32(0))
    return table.reshape((1,) * (heads.rank - 2) + hidden.shape)


def _causal_generated(scores: Value, heads: _Heads, causal: str, name: str | None) -> Value:
    """Scores, -inf for keys that come after the query."""
    b, rank = scores.builder, heads.rank
    row = _op(b, "GenIndex", scores, axis=rank - 2, name=_part(name, "query index"))
    column = _op(b, "GenIndex", scores, axis=rank - 1, name=_part(name, "key index"))
    if causal == "bottom_right":
        # Two ops rather than one with the difference: that is what oneDNN fuses.
        row = _op(b, "Add", row, b.constant([heads.keys], "s32"), name=_part(name, "plus keys"))
        row = _op(
            b, "Subtract", row, b.constant([heads.queries], "s32"), name=_part(name, "less queries")
        )
    seen = _op(b, "GreaterEqual", row, column, name=_part(name, "causal"))
    hidden = b.constant(np.full(1, -np.inf), scores.dtype)
    return _op(b, "Select", seen, scores, hidden, name=_part(name, "causal scores"))


def _checked_mask(given: Any, heads: _Heads, b: GraphBuilder) -> Value | Array | None:
    """The mask as a value or an additive array, of a shape that broadcasts."""
    if given is None:
        return None
    mask: Value | Array
    if isinstance(given, Value):
        mask = _operand("sdpa", "mask", b, given)
        shape = _need_rank("sdpa", "mask", mask, *range(1, heads.rank + 1))
    else:
        mask = np.asarray(given)
        if mask.dtype.kind in "OUS":
            raise TypeError(
                f"sdpa: mask must be a Value or an array of numbers, got {type(given).__name__}"
            )
        if mask.dtype == bool:
            mask = np.where(mask, 0.0, -np.inf)
        shape = mask.shape
    wanted = heads.scores
    fits = len(shape) <= len(wanted) and all(
        s in (1, w) or -1 in (s, w) for s, w in zip(shape[::-1], wanted[::-1], strict=False)
    )
    if not fits:
        raise InvalidShapeError(
            f"sdpa: mask must broadcast to the scores, {shape_text(wanted)}, got "
            f"{shape_text(tuple(shape))}"
        )
    return mask


def _mask_with_table(mask: Value | Array | None, table: Array, name: str | None) -> Value | Array:
    if mask is None:
        return table
    if not isinstance(mask, Value):
        return np.asarray(mask, np.float64) + table
    other = mask.builder.constant(table, mask.dtype)
    return _op(mask.builder, "Add", mask, other, name=_part(name, "mask and causal"))


def _addend(
    mask: Value | Array, heads: _Heads, between: str, b: GraphBuilder, name: str | None
) -> Value:
    """The mask as the scores have it."""
    shape = tuple(mask.shape or ())
    whole = (1,) * (heads.rank - len(shape)) + shape
    if not isinstance(mask, Value):
        value = b.constant(np.reshape(mask, whole), between)
    elif len(shape) < 4 and (heads.regroup or (len(shape) == 3 and heads.rank == 4)):
        # What has one mask a head must have 4 dims, and so must what is regrouped below: 3.7.2
        # computes wrong results for fewer.
        value = _reshape(mask, whole, _part(name, "mask of 4 dims"))
    else:
        value = mask
    if not heads.regroup:
        return value
    group = (1, 1) if whole[1] == 1 else (heads.kv_heads, heads.heads // heads.kv_heads)
    return _reshape(value, (whole[0], *group, *whole[2:]), _part(name, "mask regrouped"))


def sdpa(
    query: Value,
    key: Value,
    value: Value,
    *,
    scale: float | Value | None = None,
    scale_by: Literal["multiply", "divide"] = "multiply",
    mask: Any = None,
    causal: bool | Literal["top_left", "bottom_right"] = False,
    causal_as: Literal["constant", "indices"] | None = None,
    key_scale: Any = None,
    key_zero_point: Any = None,
    value_scale: Any = None,
    value_zero_point: Any = None,
    name: str | None = None,
) -> Value:
    """Scaled dot-product attention: softmax(query @ key.T * scale + mask) @ value.

    It becomes one partition, also with fewer key heads than query heads (GQA, MQA), a mask, a
    causal mask and compressed keys and values. Two forms are one partition more: a `mask` that is a
    value of 3 dims, or of fewer with fewer key heads; and a `mask` that is a value, together with a
    causal mask that is a constant.

    Parameters
    ----------
    query : Value
        (batch, heads, queries, head size) of f32, bf16 or f16. Of 5 dims, heads are grouped
        already: (batch, key heads, heads per key head, queries, head size), which 3.7.2 takes 1.5
        to 3 times as long for.
    key, value : Value
        (batch, key heads, keys, head size); the number of heads of `query` is a multiple of theirs.
        For a query of 5 dims (batch, key heads, 1, keys, head size). Of the query's data type, or
        compressed: u8, s8, u4 or s4.
    scale : float or Value, optional
        Of one element; 1 / sqrt(head size), or sqrt(head size) to divide by.
    scale_by : "multiply" or "divide"
        What `scale` does.
    mask : Value or array, optional
        Is added to the scores, to whose shape (batch, heads, queries, keys) it broadcasts. An array
        of bool says which keys are seen.
    causal : bool, "top_left" or "bottom_right"
        A query sees no key after itself; the first query is beside the first key (True,
        ``top_left``), or the last beside the last, which needs known numbers of both.
    causal_as : "constant" or "indices", optional
        What makes the causal mask: a constant of (queries, keys), or ops within the partition, for
        which a CPU takes 10 to 30 times as long. By default the latter only where numbers of
        queries and keys are unknown, and on a GPU. With fewer key heads they need inputs of 5 dims,
        for ``bottom_right`` oneDNN 3.9.
    key_scale, value_scale : Value or array, optional
        Of compressed keys and values: of the query's data type and of the shape of key (value),
        with each dim divided by the size of a group along it.
    key_zero_point, value_zero_point : Value or array, optional
        As the scales. Arrays become s32, which all kernels take.
    name : str, optional
        Of the result, and before the names of the other ops.

    Returns
    -------
    Value
        Of the query's shape and data type.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        An unknown choice, a scale or zero point without compressed data or the reverse, a builder
        whose math mode does not fit compressed data.
    InvalidShapeError
        Shapes don't fit together, or a dim that must be known is not.
    InvalidDataTypeError
        Data types don't fit together.
    UnimplementedError
        The linked oneDNN can't make the causal mask from indices.

    Notes
    -----
    oneDNN documents it as "Scaled Dot-Product Attention (SDPA)", "Grouped Query Attention (GQA)"
    and "SDPA with Compressed Key and Value".

    Scores are kept in f32 from 3.8 on, before that in the query's data type: 3.7 takes no other. A
    query that may see no key gives NaN; 0 from 3.8 on if it is for ``causal="bottom_right"``.

    Compressed data needs ``GraphBuilder(fpmath_mode=..., apply_to_int=True)`` with the query's data
    type as mode, ``strict`` for f32. 3.7.2 compiles only groups of a multiple of 32 elements, along
    the head size. With fewer key heads the inputs must have 5 dims.
    """
    query = _need_value("sdpa", "query", query)
    b = query.builder
    key = _operand("sdpa", "key", b, _need_value("sdpa", "key", key))
    value = _operand("sdpa", "value", b, _need_value("sdpa", "value", value))
    dtype = query.dtype
    _need_type("sdpa", "query", query, _FLOATS)
    _need_type("sdpa", "key", key, (dtype, *_INTEGERS))
    _need_type("sdpa", "value", value, (dtype, *_INTEGERS))
    _need_choice("sdpa", "scale_by", scale_by, ("multiply", "divide"))
    _need_choice("sdpa", "causal", causal, (False, True, "top_left", "bottom_right"))
    _need_choice("sdpa", "causal_as", causal_as, (None, "constant", "indices"))
    where = "top_left" if causal is True else causal
    heads = _heads_of(query, key, value)
    between = "f32" if linked_version() >= (3, 8) else dtype

    pairs = (("key", key), ("value", value))
    compressed = [a for a, v in pairs if v.dtype in _INTEGERS or _is_decompressed(v)]
    if compressed:
        what = f"a compressed {' and '.join(compressed)}"
        if heads.regroup and any(v.dtype in _INTEGERS for _, v in pairs):
            raise InvalidShapeError(
                f"sdpa: {what} with fewer heads than query must have 5 dims, (batch, key heads, 1, "
                f"keys, head size), got {shape_text(key.shape)}"
            )
        _need_integer_math("sdpa", what, b, dtype)

    factor = _scale_of(scale, scale_by, heads, between, dtype, b)
    added = _checked_mask(mask, heads, b)
    if isinstance(added, Value):
        _need_type("sdpa", "mask", added, tuple(dict.fromkeys((dtype, between))))
    generated = bool(where) and _is_generated(heads, str(where), causal_as, b)

    key = _floating("key", key, dtype, key_scale, key_zero_point, name)
    value = _floating("value", value, dtype, value_scale, value_zero_point, name)
    if where and not generated:
        added = _mask_with_table(added, _causal_table(heads, str(where)), name)

    if heads.regroup:
        per_key = heads.heads // heads.kv_heads
        one = (heads.batch, heads.kv_heads, 1, heads.keys, heads.size)
        grouped = (heads.batch, heads.kv_heads, per_key, heads.queries, heads.size)
        query = _reshape(query, grouped, _part(name, "query regrouped"))
        key = _reshape(key, one, _part(name, "key regrouped"))
        value = _reshape(value, one, _part(name, "value regrouped"))
    scores = _op(
        b, "MatMul", query, key, transpose_b=True, dtype=between, name=_part(name, "scores")
    )
    kind = "Multiply" if scale_by == "multiply" else "Divide"
    scores = _op(b, kind, scores, factor, dtype=between, name=_part(name, "scaled"))
    if generated:
        scores = _causal_generated(scores, heads, str(where), name)
    if added is not None:
        addend = _addend(added, heads, between, b, name)
        scores = _op(b, "Add", scores, addend, dtype=between, name=_part(name, "masked"))
    attrs: dict[str, Any] = {}
    if where == "bottom_right" and heads.keys < heads.queries and linked_version() >= (3, 8):
        attrs["mode"] = "inf_as_zero"
    weights = _op(b, "SoftMax", scores, axis=-1, dtype=dtype, name=_part(name, "softmax"), **attrs)
    if not heads.regroup:
        return _op(b, "MatMul", weights, value, name=name)
    combined = _op(b, "MatMul", weights, value, name=_part(name, "combined"))
    whole = (heads.batch, heads.heads, heads.queries, heads.size)
    return _reshape(combined, whole, name)


def _scale_of(
    given: Any, scale_by: str, heads: _Heads, between: str, dtype: str, b: GraphBuilder
) -> Value:
    if given is None:
        if heads.size < 1:
            raise InvalidShapeError(
                "sdpa: scale must be given where the head size is unknown, got query and key of "
                f"head size {heads.size}"
            )
        root = math.sqrt(heads.size)
        given = root if scale_by == "divide" else 1 / root
    scale = _operand("sdpa", "scale", b, given, between)
    _need_type("sdpa", "scale", scale, tuple(dict.fromkeys((dtype, between))))
    shape = _need_rank("sdpa", "scale", scale)
    if any(d not in (1, -1) for d in shape):
        raise InvalidShapeError(f"sdpa: scale must have one element, got {shape_text(shape)}")
    return scale


# -- layers


def linear(
    x: Value,
    weights: Any,
    bias: Any = None,
    *,
    transpose_b: bool = False,
    activation: str | None = None,
    name: str | None = None,
) -> Value:
    """A fully connected layer: activation(x @ weights + bias), one partition.

    Weights that `dequantize` made are a partition of their own, except static ones of 8 bits
    beside an `x` that was dequantized too.

    Parameters
    ----------
    x : Value
        (..., inputs) of f32, bf16 or f16.
    weights : Value or array
        (inputs, outputs), with `transpose_b` (outputs, inputs); of the data type of `x`.
    bias : Value or array, optional
        (outputs,), of the data type of `x`.
    transpose_b : bool
        Whether outputs come first in `weights`.
    activation : str, optional
        ``elu``, ``gelu``, ``hard_swish``, ``mish``, ``relu``, ``sigmoid``, ``silu``, ``tanh``.
    name : str, optional
        Of the result, and before the names of the other ops.

    Returns
    -------
    Value
        (..., outputs), of the data type of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        There is no such activation.
    InvalidShapeError
        Shapes don't fit together.
    InvalidDataTypeError
        Data types don't fit together.

    Notes
    -----
    oneDNN documents it as "MatMul Fusion Patterns".
    """
    x = _need_value("linear", "x", x)
    b = x.builder
    _need_type("linear", "x", x, _FLOATS)
    _need_choice("linear", "activation", activation, (None, *sorted((*_ACTIVATIONS, "silu"))))
    w = _operand("linear", "weights", b, weights, x.dtype)
    _need_type("linear", "weights", w, (x.dtype,))
    shape = _need_rank("linear", "weights", w, 2)
    inputs, outputs = shape[::-1] if transpose_b else shape
    _need_shape("linear", "x", _need_rank("linear", "x", x)[-1:], (inputs,), "(..., inputs)")
    operands = [x, w]
    if bias is not None:
        added = _operand("linear", "bias", b, bias, x.dtype)
        _need_type("linear", "bias", added, (x.dtype,))
        given = _need_rank("linear", "bias", added)
        _need_shape("linear", "bias", given, (outputs,), "(outputs,)")
        operands.append(added)
    inner = name if activation is None else _part(name, "matmul")
    y = _op(b, "MatMul", *operands, transpose_b=transpose_b, name=inner)
    return _activated(y, activation, name)


def _halves(argument: str, given: Any, axis: int) -> tuple[Any, Any]:
    """An array of gate and up in one, taken apart."""
    if isinstance(given, Value):
        raise InvalidArgumentsError(
            f"gated_mlp: {argument} must be an array to hold both gate and up, got {given!r}; for "
            "values, make two inputs with strides over the same memory"
        )
    array = np.asarray(given)
    if array.ndim < 2 or array.shape[axis] % 2:
        raise InvalidShapeError(
            f"gated_mlp: {argument} must hold gate and up side by side along axis {axis}, got "
            f"{shape_text(array.shape)}"
        )
    first, second = np.split(array, 2, axis)
    return first, second


def _mlp_weights(
    argument: str, b: GraphBuilder, given: Any, scales: Any, zero_points: Any, dtype: str,
    name: str | None,
) -> Value:  # fmt: skip
    if scales is None:
        if zero_points is not None:
            raise InvalidArgumentsError(f"gated_mlp: zero_points of {argument} go with scales")
        w = _operand("gated_mlp", argument, b, given, dtype)
        _need_type("gated_mlp", argument, w, (dtype,))
    else:
        integers = _operand("gated_mlp", argument, b, given)
        _need_type("gated_mlp", argument, integers, _INTEGERS)
        values = _operand("gated_mlp", f"scales of {argument}", b, scales, dtype)
        _need_type("gated_mlp", f"scales of {argument}", values, (dtype,))
        w = dequantize(integers, values, zero_points, name=_part(name, f"{argument} dequantized"))
    if _is_decompressed(w):
        _need_integer_math("gated_mlp", f"compressed {argument}", b, dtype)
    return w


def gated_mlp(
    x: Value,
    gate_weights: Any,
    up_weights: Any,
    down_weights: Any,
    *,
    activation: str | None = "silu",
    transpose_b: bool = False,
    scales: Sequence[Any] | None = None,
    zero_points: Sequence[Any] | None = None,
    name: str | None = None,
) -> Value:
    """A gated MLP: (activation(x @ gate) * (x @ up)) @ down, one partition.

    Parameters
    ----------
    x : Value
        (..., inputs) of f32, bf16 or f16.
    gate_weights, up_weights : Value or array
        (inputs, hidden), of the data type of `x` or, with `scales`, u8, s8, u4 or s4. Without
        `up_weights` (None), `gate_weights` is an array of both, (inputs, 2 * hidden), gate first;
        oneDNN gets two constants, as it has no op that takes a tensor apart.
    down_weights : Value or array
        (hidden, outputs), of the same data type.
    activation : str, optional
        As in `linear`; None for none.
    transpose_b : bool
        Whether the last two dims of all weights are swapped.
    scales, zero_points : sequence of 3 Values or arrays, optional
        Of compressed gate, up and down weights, as in `dequantize`: of the shape of the weights
        with each dim divided by the size of a group along it. None for that of up where gate holds
        both.
    name : str, optional
        Of the result, and before the names of the other ops.

    Returns
    -------
    Value
        (..., outputs), of the data type of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        There is no such activation, a value holds gate and up together, or the builder's math mode
        does not fit compressed weights.
    InvalidShapeError
        Shapes don't fit together.
    InvalidDataTypeError
        Data types don't fit together.

    Notes
    -----
    oneDNN documents it as "Gated Multi-Layer Perceptron (Gated-MLP)".

    Compressed weights need ``GraphBuilder(fpmath_mode=..., apply_to_int=True)`` with the data type
    of `x` as mode, ``strict`` for f32. 3.7.2 compiles only groups of a multiple of 32 elements.
    """
    x = _need_value("gated_mlp", "x", x)
    b = x.builder
    _need_type("gated_mlp", "x", x, _FLOATS)
    _need_choice("gated_mlp", "activation", activation, (None, *sorted((*_ACTIVATIONS, "silu"))))
    lists = []
    for argument, listed in (("scales", scales), ("zero_points", zero_points)):
        given = [None] * 3 if listed is None else list(listed)
        if len(given) != 3:
            raise InvalidArgumentsError(
                f"gated_mlp: {argument} must be 3 (of gate, up and down), got {len(given)}"
            )
        lists.append(given)
    weights = [gate_weights, up_weights, down_weights]
    if up_weights is None:
        axis = 0 if transpose_b else 1
        for argument, of in zip(("gate_weights", "scales", "zero_points"), (weights, *lists),
                                strict=True):  # fmt: skip
            if of[0] is not None:
                of[0], of[1] = _halves(argument, of[0], axis)
    names = ("gate_weights", "up_weights", "down_weights")
    gate, up, down = (
        _mlp_weights(argument, b, w, s, z, x.dtype, name)
        for argument, w, s, z in zip(names, weights, *lists, strict=True)
    )
    inputs = _need_rank("gated_mlp", "x", x)[-1]
    flip = -1 if transpose_b else 1
    shape = _need_rank("gated_mlp", "gate_weights", gate, 2)
    of_gate = "(inputs, hidden)" if not transpose_b else "(hidden, inputs)"
    _need_shape("gated_mlp", "gate_weights", shape, (inputs, shape[::flip][1])[::flip], of_gate)
    of_up = _need_rank("gated_mlp", "up_weights", up, 2)
    _need_shape("gated_mlp", "up_weights", of_up, shape, "as gate_weights")
    last = _need_rank("gated_mlp", "down_weights", down, 2)
    of_down = "(hidden, outputs)" if not transpose_b else "(outputs, hidden)"
    expected = (shape[::flip][1], last[::flip][1])[::flip]
    _need_shape("gated_mlp", "down_weights", last, expected, of_down)

    gated = _op(b, "MatMul", x, gate, transpose_b=transpose_b, name=_part(name, "gate"))
    raised = _op(b, "MatMul", x, up, transpose_b=transpose_b, name=_part(name, "up"))
    gated = _activated(gated, activation, _part(name, "activation"))
    hidden = _op(b, "Multiply", gated, raised, name=_part(name, "gated"))
    return _op(b, "MatMul", hidden, down, transpose_b=transpose_b, name=name)


def conv_bn_relu(
    x: Value,
    weights: Any,
    bias: Any = None,
    *,
    gamma: Any,
    beta: Any,
    mean: Any,
    variance: Any,
    epsilon: float = 1e-5,
    strides: Sequence[int] | None = None,
    pads_begin: Sequence[int] | None = None,
    pads_end: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    groups: int = 1,
    data_format: Literal["NCX", "NXC"] = "NCX",
    weights_format: Literal["OIX", "XIO"] = "OIX",
    relu: bool = True,
    name: str | None = None,
) -> Value:
    """A convolution, batch norm by given statistics, and ReLU: one partition.

    Parameters
    ----------
    x : Value
        (batch, channels, spatial dims), or with the channels last; f32, bf16 or f16.
    weights : Value or array
        (outputs, channels / groups, window), or reversed (window, channels / groups, outputs); of
        the data type of `x`.
    bias : Value or array, optional
        (outputs,), of the data type of `x`.
    gamma, beta, mean, variance : Value or array
        (outputs,) each: normalized channels times `gamma` plus `beta`. Arrays become f32. Values
        are f32, or bf16 beside a bf16 `x`.
    epsilon : float
        Is added to the variance.
    strides, dilations : sequence of int, optional
        Per spatial dim; 1 by default.
    pads_begin, pads_end : sequence of int, optional
        Per spatial dim; 0 by default.
    groups : int
        Parts that channels are split into.
    data_format, weights_format : str
        As in oneDNN's Convolution.
    relu : bool
        Whether a ReLU follows.
    name : str, optional
        Of the result, and before the names of the other ops.

    Returns
    -------
    Value
        Of the data type of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        An attribute has another value than it may.
    InvalidShapeError
        Shapes don't fit together.
    InvalidDataTypeError
        Data types don't fit together.

    Notes
    -----
    oneDNN documents it as "Convolution Fusion Patterns".
    """
    block = "conv_bn_relu"
    x = _need_value(block, "x", x)
    b = x.builder
    _need_type(block, "x", x, _FLOATS)
    _need_choice(block, "data_format", data_format, ("NCX", "NXC"))
    _need_choice(block, "weights_format", weights_format, ("OIX", "XIO"))
    shape = _need_rank(block, "x", x, 3, 4, 5)
    w = _operand(block, "weights", b, weights, x.dtype)
    _need_type(block, "weights", w, (x.dtype,))
    window = _need_rank(block, "weights", w, len(shape))
    spatial = len(shape) - 2
    channels = shape[1] if data_format == "NCX" else shape[-1]
    outputs, per_group = window[:2] if weights_format == "OIX" else window[:-3:-1]
    if -1 not in (channels, per_group) and per_group * groups != channels:
        raise InvalidShapeError(
            f"{block}: weights must be of {channels} / {groups} channels (those of x over groups), "
            f"got {per_group} in {shape_text(window)}"
        )
    lists = {"strides": (strides, 1), "pads_begin": (pads_begin, 0), "pads_end": (pads_end, 0)}
    lists["dilations"] = (dilations, 1)
    attrs: dict[str, Any] = {}
    for argument, (listed, default) in lists.items():
        attrs[argument] = (default,) * spatial if listed is None else tuple(listed)
        if len(attrs[argument]) != spatial:
            raise InvalidArgumentsError(
                f"{block}: {argument} must have {spatial} entries, one per spatial dim, got "
                f"{list(attrs[argument])}"
            )
    operands = [x, w]
    if bias is not None:
        operands.append(_operand(block, "bias", b, bias, x.dtype))
        _need_type(block, "bias", operands[-1], (x.dtype,))
        _need_shape(
            block, "bias", _need_rank(block, "bias", operands[-1]), (outputs,), "(outputs,)"
        )
    parameters = []
    allowed = ("f32", "bf16") if x.dtype == "bf16" else ("f32",)
    named = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    for argument, given in named.items():
        parameter = _operand(block, argument, b, given, "f32")
        _need_type(block, argument, parameter, allowed)
        _need_shape(
            block, argument, _need_rank(block, argument, parameter), (outputs,), "(outputs,)"
        )
        parameters.append(parameter)
    if len({p.dtype for p in parameters}) > 1:
        raise InvalidDataTypeError(
            f"{block}: gamma, beta, mean and variance must be of one data type, got "
            + ", ".join(p.dtype for p in parameters)
        )

    y = _op(
        b, "Convolution", *operands, groups=groups, data_format=data_format,
        weights_format=weights_format, name=_part(name, "convolution"), **attrs,
    )  # fmt: skip
    last = _part(name, "batch norm") if relu else name
    y = _op(
        b, "BatchNormInference", y, *parameters, epsilon=float(epsilon), data_format=data_format,
        name=last,
    )  # fmt: skip
    return _op(b, "ReLU", y, name=name) if relu else y


# -- quantization


def _is_list(given: Any) -> bool:
    """Whether it is known now rather than when the graph runs."""
    return not isinstance(given, Value)


def _static_attrs(
    block: str, x: Value, scales: Any, zero_points: Any, axis: int | None
) -> dict[str, Any]:
    values = np.asarray(scales, np.float64).ravel()
    if values.size == 0 or not np.isfinite(values).all() or (values <= 0).any():
        raise InvalidArgumentsError(f"{block}: scales must be positive, got {scales!r}")
    attrs: dict[str, Any] = {"scales": values.tolist()}
    if values.size == 1 and axis is None:
        attrs["qtype"] = "per_tensor"
    else:
        attrs["qtype"], attrs["axis"] = "per_channel", _axis_of(block, x, axis, values.size)
    if zero_points is not None:
        points = np.asarray(zero_points).ravel()
        if points.dtype.kind not in "iu":
            raise InvalidDataTypeError(
                f"{block}: zero_points must be whole numbers, got {points.dtype}"
            )
        if points.size == 1:
            points = np.repeat(points, values.size)
        if points.size != values.size:
            raise InvalidShapeError(
                f"{block}: zero_points must be 1 or as many as scales, {values.size}, got "
                f"{points.size}"
            )
        attrs["zps"] = points.tolist()
    return attrs


def _axis_of(block: str, x: Value, axis: int | None, count: int) -> int:
    """The axis, of which each element has a scale."""
    shape = _need_rank(block, "x", x)
    if axis is None:
        raise InvalidArgumentsError(f"{block}: axis must be given with {count} scales")
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgumentsError(
            f"{block}: axis must be a dim of x, {shape_text(shape)}, got {axis}"
        )
    if -1 not in (shape[axis], count) and shape[axis] != count:
        raise InvalidShapeError(
            f"{block}: scales must be one for each of {shape[axis]} along axis {axis} of x, "
            f"{shape_text(shape)}, got {count}"
        )
    # oneDNN takes a negative axis and computes wrong results.
    return axis % len(shape)


def _dynamic(
    block: str, x: Value, scales: Value, zero_points: Any, axis: int | None,
    group_shape: Sequence[int] | None,
) -> tuple[list[Value], dict[str, Any]]:  # fmt: skip
    """Inputs besides `x`, and attributes, of a dynamic op."""
    shape, given = _need_rank(block, "x", x), _need_rank(block, "scales", scales)
    attrs: dict[str, Any] = {}
    if group_shape is not None or (len(given) == len(shape) >= 2):
        group = _group_of(block, shape, given, group_shape)
        grouped = [i for i, g in enumerate(group) if g > 1]
        attrs = {
            "qtype": "per_group",
            "group_shape": group,
            "axis": (grouped or [len(group) - 1])[-1],
        }
    elif len(given) != 1:
        raise InvalidShapeError(
            f"{block}: scales must be of 1 dim, or of as many as x, {shape_text(shape)}, got "
            f"{shape_text(given)}"
        )
    elif given[0] == 1 and axis is None:
        attrs["qtype"] = "per_tensor"
    else:
        attrs = {"qtype": "per_channel", "axis": _axis_of(block, x, axis, given[0])}
    inputs = [scales]
    if zero_points is not None:
        if _is_list(zero_points):
            zero_points = np.asarray(zero_points)
            if zero_points.size == 1 and -1 not in given:
                zero_points = np.broadcast_to(zero_points.reshape(()), given)
        points = _operand(block, "zero_points", x.builder, zero_points, None if isinstance(
            zero_points, Value) else "s32")  # fmt: skip
        if attrs["qtype"] != "per_channel" or points.shape != (1,):
            what = "of the shape of scales"
            _need_shape(block, "zero_points", _need_rank(block, "zero_points", points), given, what)
        inputs.append(points)
    return inputs, attrs


def _group_of(
    block: str, shape: tuple[int, ...], scales: tuple[int, ...], group: Sequence[int] | None
) -> tuple[int, ...]:
    """The size of a group along each dim."""
    if len(scales) != len(shape) or (group is not None and len(group) != len(shape)):
        raise InvalidShapeError(
            f"{block}: with groups, scales and group_shape must have as many dims as x, "
            f"{shape_text(shape)}, got {shape_text(scales)}"
            + (f" and {list(group)}" if group is not None else "")
        )
    made = []
    for i, (d, s) in enumerate(zip(shape, scales, strict=True)):
        if group is not None:
            made.append(int(group[i]))
        elif d == s:  # also where both are unknown: taken for one scale an element
            made.append(1)
        elif -1 in (d, s):
            raise InvalidShapeError(
                f"{block}: group_shape must be given where dims are unknown, got x "
                f"{shape_text(shape)} and scales {shape_text(scales)}"
            )
        else:
            made.append(d // s if s > 0 else 0)
        if made[-1] < 1 or (-1 not in (d, s) and made[-1] * s != d):
            raise InvalidShapeError(
                f"{block}: scales must divide dim {i} of x, {shape_text(shape)}, into groups"
                + (f" of {made[-1]}" if group is not None else "")
                + f", got {shape_text(scales)}"
            )
    return tuple(made)


def quantize(
    x: Value,
    dtype: str,
    scales: Any,
    zero_points: Any = None,
    axis: int | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Quantize to 8 bits: round(x / scale) + zero point, saturated.

    Numbers and arrays make a Quantize, whose scales are attributes and which oneDNN fuses with the
    op before it; values a DynamicQuantize, whose scales are inputs, a partition of its own.

    Parameters
    ----------
    x : Value
        f32; bf16 and f16 are cast to it first.
    dtype : str
        ``u8`` or ``s8``; for numbers and arrays also ``f8_e5m2`` and ``f8_e4m3``.
    scales : float, array or Value
        One for all, or one for each element along `axis`. Values are f32.
    zero_points : int, array or Value, optional
        One, or as many as scales. Not for f8.
    axis : int, optional
        Which dim has its own scales.
    name : str, optional
        Of the op.

    Returns
    -------
    Value
        Of the shape of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        A scale is not positive; `axis` is missing or no dim of `x`.
    InvalidShapeError
        The numbers of scales or zero points don't fit.
    InvalidDataTypeError
        Data types don't fit.

    Notes
    -----
    oneDNN documents the ops as Quantize and DynamicQuantize. On a CPU zero points other than 0 per
    channel do not compile, nor f8 on most.
    """
    x = _need_value("quantize", "x", x)
    b = x.builder
    _need_type("quantize", "x", x, _FLOATS)
    dynamic = isinstance(scales, Value) or isinstance(zero_points, Value)
    allowed = ("u8", "s8") if dynamic else _EIGHT_BITS
    if dtype not in allowed:
        raise InvalidDataTypeError(f"quantize: dtype must be {' or '.join(allowed)}, got {dtype!r}")
    if dtype.startswith("f8") and zero_points is not None:
        raise InvalidArgumentsError(f"quantize: {dtype} has no zero_points, got {zero_points!r}")
    if not dynamic:
        attrs = _static_attrs("quantize", x, scales, zero_points, axis)
    else:
        factors = _operand("quantize", "scales", b, scales, "f32")
        _need_type("quantize", "scales", factors, ("f32",))
        inputs, attrs = _dynamic("quantize", x, factors, zero_points, axis, None)
        if attrs["qtype"] == "per_group":
            raise InvalidShapeError(
                "quantize: scales must have 1 dim, oneDNN quantizes no groups, got "
                f"{shape_text(factors.shape)}"
            )
    if x.dtype != "f32":
        x = _op(b, "TypeCast", x, dtype="f32", name=_part(name, "f32"))
    if not dynamic:
        return _op(b, "Quantize", x, dtype=dtype, name=name, **attrs)
    return _op(b, "DynamicQuantize", x, *inputs, dtype=dtype, name=name, **attrs)


def dequantize(
    x: Value,
    scales: Any,
    zero_points: Any = None,
    axis: int | None = None,
    group_shape: Sequence[int] | None = None,
    dtype: str | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Undo quantization: (x - zero point) * scale.

    Numbers and arrays make a Dequantize, whose scales are attributes and which oneDNN fuses with
    the ops behind it. Values, groups and int4 make a DynamicDequantize, whose scales are inputs;
    it is fused into `sdpa` and `gated_mlp`, else a partition of its own.

    Parameters
    ----------
    x : Value
        u8, s8, u4, s4; for numbers and arrays also f8_e5m2 and f8_e4m3.
    scales : float, array or Value
        One for all, one for each element along `axis`, or of as many dims as `x` for groups.
    zero_points : int, array or Value, optional
        One, or of the shape of scales. Not for f8. Arrays become s32 where they are inputs.
    axis : int, optional
        Which dim has its own scales.
    group_shape : sequence of int, optional
        The size of a group along each dim; follows from the shapes where they are known.
    dtype : str, optional
        The result's: that of scales that are a value, else ``f32`` by default. Behind a Dequantize,
        which makes f32, a TypeCast makes another.
    name : str, optional
        Of the result.

    Returns
    -------
    Value
        Of the shape of `x`.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        A scale is not positive; `axis` is missing or no dim of `x`.
    InvalidShapeError
        The shapes of scales, zero points and groups don't fit.
    InvalidDataTypeError
        Data types don't fit.

    Notes
    -----
    oneDNN documents the ops as Dequantize and DynamicDequantize. On a CPU zero points other than 0
    per channel do not compile, nor int4 with one scale for all (give one per group); 3.13.2 takes
    no int4 whose last dim is odd.
    """
    x = _need_value("dequantize", "x", x)
    b = x.builder
    floats = _FLOATS if dtype is None else (dtype,)
    if dtype is not None and dtype not in _FLOATS:
        raise InvalidDataTypeError(
            f"dequantize: dtype must be {' or '.join(_FLOATS)}, got {dtype!r}"
        )
    if x.dtype.startswith("f8") and zero_points is not None:
        raise InvalidArgumentsError(f"dequantize: {x.dtype} has no zero_points")
    dynamic = (
        not (_is_list(scales) and _is_list(zero_points))
        or group_shape is not None
        or x.dtype in ("s4", "u4")
        or np.ndim(scales) > 1
    )
    if not dynamic:
        _need_type("dequantize", "x", x, _EIGHT_BITS)
        attrs = _static_attrs("dequantize", x, scales, zero_points, axis)
        if dtype in (None, "f32"):
            return _op(b, "Dequantize", x, dtype="f32", name=name, **attrs)
        made = _op(b, "Dequantize", x, dtype="f32", name=_part(name, "f32"), **attrs)
        return _op(b, "TypeCast", made, dtype=dtype, name=name)
    _need_type("dequantize", "x", x, _INTEGERS)
    factors = _operand("dequantize", "scales", b, scales, dtype or "f32")
    _need_type("dequantize", "scales", factors, floats)
    inputs, attrs = _dynamic("dequantize", x, factors, zero_points, axis, group_shape)
    return _op(b, "DynamicDequantize", x, *inputs, name=name, **attrs)

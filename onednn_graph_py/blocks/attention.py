"""Attention: `sdpa`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.value import Value
from ..errors import InvalidArgumentsError, InvalidShapeError, UnimplementedError
from ..linked import linked_version
from ..ops.terms import shape_text
from .arguments import (
    FLOATS,
    INTEGERS,
    is_decompressed,
    need_choice,
    need_integer_math,
    need_rank,
    need_shape,
    need_type,
    need_value,
    operand,
)
from .parts import op, part, reshape
from .quantization import dequantize

__all__ = ["sdpa"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Heads:
    """The dims of an attention.

    Parameters
    ----------
    batch, heads, kv_heads, queries, keys, size : int
        -1 if unknown; numbers of heads may be unknown only in inputs of 5 dims.
    regroup : bool
        Whether to make a separate dim of the query heads that share a key head.
    rank : int
        The rank of the given query.
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
    q = need_rank("sdpa", "query", query, 4, 5)
    k = need_rank("sdpa", "key", key, len(q))
    v = need_rank("sdpa", "value", value, len(q))
    size = k[-1] if q[-1] == -1 else q[-1]
    if len(q) == 5:
        need_shape(
            "sdpa", "key", k, (q[0], q[1], 1, -1, size), "(batch, key heads, 1, keys, head size)"
        )
        need_shape("sdpa", "value", v, (*k[:-1], size), "as key")
        return _Heads(q[0], q[2], q[1], q[3], k[3], size, False, 5)
    if -1 in (q[1], k[1]):
        raise InvalidShapeError(
            "sdpa: the numbers of heads (dim 1) must be known, got query "
            f"{shape_text(q)} and key {shape_text(k)}"
        )
    need_shape("sdpa", "key", k, (q[0], -1, -1, size), "(batch, key heads, keys, head size)")
    need_shape("sdpa", "value", v, (*k[:-1], size), "as key")
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
    """Return key or value in the query's data type, dequantized if it is compressed."""
    b = given.builder
    if given.dtype in INTEGERS:
        if scale is None:
            raise InvalidArgumentsError(
                f"sdpa: {argument}_scale must be given for a {argument} of {given.dtype}"
            )
        scales = operand("sdpa", f"{argument}_scale", b, scale, dtype)
        need_type("sdpa", f"{argument}_scale", scales, (dtype,))
        return dequantize(given, scales, zero_point, name=part(name, f"{argument} dequantized"))
    for what, of in (("scale", scale), ("zero_point", zero_point)):
        if of is not None:
            raise InvalidArgumentsError(
                f"sdpa: {argument}_{what} needs a {argument} of integers, got {given.dtype}"
            )
    return given


def _is_generated(heads: _Heads, causal: str, causal_as: str | None, b: GraphBuilder) -> bool:
    """Return whether ops make the causal mask from indices; else it is a constant."""
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
    """Make the mask to add to scores: -inf for keys after the query."""
    offset = heads.keys - heads.queries if causal == "bottom_right" else 0
    hidden = np.arange(heads.queries)[:, None] + offset < np.arange(heads.keys)
    table = np.where(hidden, np.float32(-np.inf), np.float32(0))
    return table.reshape((1,) * (heads.rank - 2) + hidden.shape)


def _causal_generated(scores: Value, heads: _Heads, causal: str, name: str | None) -> Value:
    """Return the scores, with -inf for keys after the query."""
    b, rank = scores.builder, heads.rank
    row = op(b, "GenIndex", scores, axis=rank - 2, name=part(name, "query index"))
    column = op(b, "GenIndex", scores, axis=rank - 1, name=part(name, "key index"))
    if causal == "bottom_right":
        # oneDNN fuses two ops, but not one with the difference of the numbers.
        row = op(b, "Add", row, b.constant([heads.keys], "s32"), name=part(name, "plus keys"))
        row = op(
            b, "Subtract", row, b.constant([heads.queries], "s32"), name=part(name, "less queries")
        )
    seen = op(b, "GreaterEqual", row, column, name=part(name, "causal"))
    hidden = b.constant(np.full(1, -np.inf), scores.dtype)
    return op(b, "Select", seen, scores, hidden, name=part(name, "causal scores"))


def _checked_mask(given: Any, heads: _Heads, b: GraphBuilder) -> Value | Array | None:
    """Check the mask's type and shape; return a value or an array to add."""
    if given is None:
        return None
    mask: Value | Array
    if isinstance(given, Value):
        mask = operand("sdpa", "mask", b, given)
        shape = need_rank("sdpa", "mask", mask, *range(1, heads.rank + 1))
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
    return op(mask.builder, "Add", mask, other, name=part(name, "mask and causal"))


def _addend(
    mask: Value | Array, heads: _Heads, between: str, b: GraphBuilder, name: str | None
) -> Value:
    """Return the mask as a value with the scores' rank and data type."""
    shape = tuple(mask.shape or ())
    whole = (1,) * (heads.rank - len(shape)) + shape
    if not isinstance(mask, Value):
        value = b.constant(np.reshape(mask, whole), between)
    elif len(shape) < 4 and (heads.regroup or (len(shape) == 3 and heads.rank == 4)):
        # A mask for each head must have 4 dims, and so must a mask that is regrouped below: 3.7.2
        # computes wrong results with fewer.
        value = reshape(mask, whole, part(name, "mask of 4 dims"))
    else:
        value = mask
    if not heads.regroup:
        return value
    group = (1, 1) if whole[1] == 1 else (heads.kv_heads, heads.heads // heads.kv_heads)
    return reshape(value, (whole[0], *group, *whole[2:]), part(name, "mask regrouped"))


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
    """Add scaled dot-product attention: softmax(query @ key.T * scale + mask) @ value.

    It becomes one partition, also with fewer key heads than query heads (GQA, MQA), a mask, a
    causal mask or compressed keys and values. Two forms need another partition: a `mask` that is a
    value of 3 dims, or of fewer dims with fewer key heads than query heads; and a `mask` that is a
    value, together with a causal mask that is a constant.

    Parameters
    ----------
    query : Value
        (batch, heads, queries, head size) of f32, bf16 or f16; or with grouped heads (batch, key
        heads, heads per key head, queries, head size), which takes 3.7.2 1.5 to 3 times as long.
    key, value : Value
        (batch, key heads, keys, head size); the number of heads of `query` is a multiple of theirs.
        For a query of 5 dims (batch, key heads, 1, keys, head size). They have the query's data
        type, or are compressed: u8, s8, u4 or s4.
    scale : float or Value, optional
        One element; by default 1 / sqrt(head size), or sqrt(head size) to divide by.
    scale_by : "multiply" or "divide"
        Whether scores are multiplied or divided by `scale`.
    mask : Value or array, optional
        It is added to the scores, to whose shape (batch, heads, queries, keys) it broadcasts. In an
        array of bool, True marks the keys that a query sees.
    causal : bool, "top_left" or "bottom_right"
        Hide the keys after a query. ``top_left`` (or True) aligns the first query with the first
        key, ``bottom_right`` the last with the last, which needs known numbers of both.
    causal_as : "constant" or "indices", optional
        The causal mask is a constant of (queries, keys), or ops within the partition make it from
        indices, which takes a CPU 10 to 30 times as long. The latter is the default only if
        numbers of queries or keys are unknown, and on a GPU. It needs inputs of 5 dims if there are
        fewer key heads than query heads, and oneDNN 3.9 for ``bottom_right``.
    key_scale, value_scale : Value or array, optional
        The scales of compressed keys and values, in the query's data type: the shape of key (value)
        with each dim divided by the size of a group along it.
    key_zero_point, value_zero_point : Value or array, optional
        The zero points, of the scales' shape. Arrays become s32, which all kernels support.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        It has the query's shape and data type.

    Raises
    ------
    TypeError
        An argument is neither a value nor an array.
    InvalidArgumentsError
        A choice is unknown; a scale or zero point is given without compressed data, or is missing;
        the builder's math mode does not support compressed data.
    InvalidShapeError
        Shapes don't fit together, or a dim that must be known is unknown.
    InvalidDataTypeError
        Data types don't fit together.
    UnimplementedError
        The linked oneDNN can't make the causal mask from indices.

    Notes
    -----
    oneDNN documents it as "Scaled Dot-Product Attention (SDPA)", "Grouped Query Attention (GQA)"
    and "SDPA with Compressed Key and Value".

    Scores are f32 from 3.8 on; 3.7 needs the query's data type. A query that sees no key gives NaN;
    from 3.8 on it gives 0 if ``causal="bottom_right"`` is the reason.

    Compressed data needs ``GraphBuilder(fpmath_mode=..., apply_to_int=True)`` with the query's data
    type as mode, or ``strict`` for f32. 3.7.2 compiles only groups of a multiple of 32 elements,
    along the head size. With fewer key heads than query heads the inputs must have 5 dims.
    """
    query = need_value("sdpa", "query", query)
    b = query.builder
    key = operand("sdpa", "key", b, need_value("sdpa", "key", key))
    value = operand("sdpa", "value", b, need_value("sdpa", "value", value))
    dtype = query.dtype
    need_type("sdpa", "query", query, FLOATS)
    need_type("sdpa", "key", key, (dtype, *INTEGERS))
    need_type("sdpa", "value", value, (dtype, *INTEGERS))
    need_choice("sdpa", "scale_by", scale_by, ("multiply", "divide"))
    need_choice("sdpa", "causal", causal, (False, True, "top_left", "bottom_right"))
    need_choice("sdpa", "causal_as", causal_as, (None, "constant", "indices"))
    where = "top_left" if causal is True else causal
    heads = _heads_of(query, key, value)
    between = "f32" if linked_version() >= (3, 8) else dtype

    pairs = (("key", key), ("value", value))
    compressed = [a for a, v in pairs if v.dtype in INTEGERS or is_decompressed(v)]
    if compressed:
        what = f"a compressed {' and '.join(compressed)}"
        if heads.regroup and any(v.dtype in INTEGERS for _, v in pairs):
            raise InvalidShapeError(
                f"sdpa: {what} with fewer heads than query must have 5 dims, (batch, key heads, 1, "
                f"keys, head size), got {shape_text(key.shape)}"
            )
        need_integer_math("sdpa", what, b, dtype)

    factor = _scale_of(scale, scale_by, heads, between, dtype, b)
    added = _checked_mask(mask, heads, b)
    if isinstance(added, Value):
        need_type("sdpa", "mask", added, tuple(dict.fromkeys((dtype, between))))
    generated = bool(where) and _is_generated(heads, str(where), causal_as, b)

    key = _floating("key", key, dtype, key_scale, key_zero_point, name)
    value = _floating("value", value, dtype, value_scale, value_zero_point, name)
    if where and not generated:
        added = _mask_with_table(added, _causal_table(heads, str(where)), name)

    if heads.regroup:
        per_key = heads.heads // heads.kv_heads
        one = (heads.batch, heads.kv_heads, 1, heads.keys, heads.size)
        grouped = (heads.batch, heads.kv_heads, per_key, heads.queries, heads.size)
        query = reshape(query, grouped, part(name, "query regrouped"))
        key = reshape(key, one, part(name, "key regrouped"))
        value = reshape(value, one, part(name, "value regrouped"))
    scores = op(b, "MatMul", query, key, transpose_b=True, dtype=between, name=part(name, "scores"))
    kind = "Multiply" if scale_by == "multiply" else "Divide"
    scores = op(b, kind, scores, factor, dtype=between, name=part(name, "scaled"))
    if generated:
        scores = _causal_generated(scores, heads, str(where), name)
    if added is not None:
        addend = _addend(added, heads, between, b, name)
        scores = op(b, "Add", scores, addend, dtype=between, name=part(name, "masked"))
    attrs: dict[str, Any] = {}
    if where == "bottom_right" and heads.keys < heads.queries and linked_version() >= (3, 8):
        attrs["mode"] = "inf_as_zero"
    weights = op(b, "SoftMax", scores, axis=-1, dtype=dtype, name=part(name, "softmax"), **attrs)
    if not heads.regroup:
        return op(b, "MatMul", weights, value, name=name)
    combined = op(b, "MatMul", weights, value, name=part(name, "combined"))
    whole = (heads.batch, heads.heads, heads.queries, heads.size)
    return reshape(combined, whole, name)


def _scale_of(
    given: Any, scale_by: str, heads: _Heads, between: str, dtype: str, b: GraphBuilder
) -> Value:
    if given is None:
        if heads.size < 1:
            raise InvalidShapeError(
                "sdpa: scale must be given if the head size is unknown, got query and key of "
                f"head size {heads.size}"
            )
        root = math.sqrt(heads.size)
        given = root if scale_by == "divide" else 1 / root
    scale = operand("sdpa", "scale", b, given, between)
    need_type("sdpa", "scale", scale, tuple(dict.fromkeys((dtype, between))))
    shape = need_rank("sdpa", "scale", scale)
    if any(d not in (1, -1) for d in shape):
        raise InvalidShapeError(f"sdpa: scale must have one element, got {shape_text(shape)}")
    return scale

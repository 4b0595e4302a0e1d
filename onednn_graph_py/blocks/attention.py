"""Attention: `sdpa`."""

from __future__ import annotations

import math
from typing import Any, Literal

from ..base.arguments import need_choice
from ..base.errors import InvalidArgumentsError, InvalidShapeError
from ..base.linked import linked_version
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from ..ops.terms import shape_text
from . import masks
from .arguments import (
    FLOATS,
    INTEGERS,
    is_decompressed,
    need_integer_math,
    need_rank,
    need_type,
    need_value,
    operand,
)
from .heads import Heads, heads_of
from .parts import op, part, reshape
from .quantization import dequantize


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


def sdpa(
    query: Value,
    key: Value,
    value: Value,
    *,
    scale: float | Value | None = None,
    scale_by: Literal["multiply", "divide"] = "multiply",
    mask: Any = None,
    causal: bool | Literal["top_left", "bottom_right"] = False,
    masked_rows: Literal["zero", "nan"] = "zero",
    key_scale: Any = None,
    key_zero_point: Any = None,
    value_scale: Any = None,
    value_zero_point: Any = None,
    name: str | None = None,
) -> Value:
    """Add scaled dot-product attention: softmax(query @ key.T * scale + mask) @ value.

    It becomes one partition, also with fewer key heads than query heads (GQA, MQA), a mask, a
    causal mask or compressed keys and values. These forms need further partitions, for work on the
    mask or the result: a `mask` that is a boolean value; one together with a causal mask that is a
    constant; and before 3.8 `masked_rows`, unless "nan".

    Parameters
    ----------
    query : Value
        (batch, heads, queries, head size) of f32, bf16 or f16; or with grouped heads (batch, key
        heads, heads per key head, queries, head size), which takes 3.7.2 1.5 to 3 times as long.
    key, value : Value
        (batch, key heads, keys, head size); the number of heads of `query` is a multiple of theirs.
        For a query of 5 dims (batch, key heads, 1, keys, head size). They have the query's data
        type, or are compressed: u8, s8, u4 or s4. The head size of `value`, which the result has,
        may be another.
    scale : float or Value, optional
        One element; by default 1 / sqrt(head size), or sqrt(head size) to divide by.
    scale_by : "multiply" or "divide"
        Whether scores are multiplied or divided by `scale`.
    mask : Value or array, optional
        It broadcasts to the scores, (batch, heads, queries, keys). If it is boolean, True marks the
        keys that a query sees; else it is added to the scores. Values are boolean, f32 (from 3.8
        on) or of the query's data type; boolean ones of unknown dims run several times as long as
        others where one of their last two dims is 1, and take a host step before 3.8 and with fewer
        key heads than query heads.
    causal : bool, "top_left" or "bottom_right"
        Hide the keys after a query. ``top_left`` (or True) aligns the first query with the first
        key, ``bottom_right`` the last with the last, as queries behind cached keys need. The mask
        is a constant; where numbers of queries or keys are unknown, a host step makes it.
    masked_rows : "zero" or "nan"
        The result for queries for which every key is masked by -inf, such as those of padding: 0,
        as in torch and ONNX, or NaN. Finite numbers mask no key, even the smallest: if a row has no
        others, its keys are all seen alike. A row with NaN or infinity becomes NaN.
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

    Notes
    -----
    oneDNN documents it as "Scaled Dot-Product Attention (SDPA)", "Grouped Query Attention (GQA)"
    and "SDPA with Compressed Key and Value".

    Scores are f32 from 3.8 on; 3.7 needs the query's data type. Numbers of a mask array that this
    type can't hold become finite ones that it can.

    From 3.8 on SoftMax makes zeros of masked rows (mode ``inf_as_zero``), which costs no time.
    Before, ops show the keys of such rows to SoftMax and multiply the result by 0. There are none
    if the mask is known to have no such rows; for masks that are values they take 5 to 15 % of the
    attention's time (12 heads of 64, 128 tokens, or one token with 512 keys).

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
    need_choice("sdpa: scale_by", scale_by, ("multiply", "divide"))
    causal = need_choice("sdpa: causal", causal, (False, True, "top_left", "bottom_right"))
    need_choice("sdpa: masked_rows", masked_rows, ("zero", "nan"))
    where = "top_left" if causal is True else causal or None
    heads = heads_of(query, key, value)
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
    mask = masks.checked(mask, heads, b, tuple(dict.fromkeys((dtype, between))))
    if where and masks.hides_nothing(heads, where):
        where = None
    if where and -1 in (heads.queries, heads.keys):
        mask = masks.with_causal(mask, query, key, heads, where, between, name)
        where = None

    key = _floating("key", key, dtype, key_scale, key_zero_point, name)
    value = _floating("value", value, dtype, value_scale, value_zero_point, name)
    if heads.regroup and heads.queries == 1 and where is None and mask is None:
        # Heads that share keys are rows of one product, which takes less than half the time.
        as_rows = (heads.batch, heads.kv_heads, heads.heads // heads.kv_heads, heads.size)
        query = reshape(query, as_rows, part(name, "query regrouped"))
    elif heads.regroup:
        per_key = heads.heads // heads.kv_heads
        one = (heads.batch, heads.kv_heads, 1, heads.keys, heads.size)
        grouped = (heads.batch, heads.kv_heads, per_key, heads.queries, heads.size)
        query = reshape(query, grouped, part(name, "query regrouped"))
        key = reshape(key, one, part(name, "key regrouped"))
        one = (*one[:-1], heads.value_size)
        value = reshape(value, one, part(name, "value regrouped"))
    scores = op(b, "MatMul", query, key, transpose_b=True, dtype=between, name=part(name, "scores"))
    kind = "Multiply" if scale_by == "multiply" else "Divide"
    scores = op(b, kind, scores, factor, dtype=between, name=part(name, "scaled"))
    scores, rows, attrs = masks.applied(
        scores, mask, heads, causal=where, zero=masked_rows == "zero", name=name
    )
    weights = op(b, "SoftMax", scores, axis=-1, dtype=dtype, name=part(name, "softmax"), **attrs)
    last = part(name, "combined") if heads.regroup or rows is not None else name
    y = op(b, "MatMul", weights, value, name=last)
    if heads.regroup:
        whole = (heads.batch, heads.heads, heads.queries, heads.value_size)
        y = reshape(y, whole, name if rows is None else part(name, "heads side by side"))
    return y if rows is None else op(b, "Multiply", y, rows, name=name)


def _scale_of(
    given: Any, scale_by: str, heads: Heads, between: str, dtype: str, b: GraphBuilder
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

"""Masks of attention: which keys a query sees, and rows of scores in which all keys are masked.

Such a row has no softmax. torch and ONNX say that its weights are 0. From 3.8 on oneDNN's SoftMax
does so in the mode ``inf_as_zero``. Before, such a row must not reach it: the query is shown all
keys, and the result is multiplied by 0.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.dtypes import array_dtype
from ..base.errors import InvalidShapeError
from ..base.linked import linked_version
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from ..ops.terms import shape_text
from ..reference.rounding import float_info
from .arguments import array_of, need_rank, need_type, operand
from .heads import Heads
from .parts import once, op, part, reshape

Array = npt.NDArray[Any]

Mask = Value | Array
"""A summand of scores; a value may be boolean instead, true for the keys that a query sees."""


def checked(argument: Any, heads: Heads, b: GraphBuilder, dtypes: tuple[str, ...]) -> Mask | None:
    """Return a mask as a value of these types, or as an array to add; raise if it does not fit."""
    if argument is None:
        return None
    mask: Mask
    if isinstance(argument, Value):
        mask = operand("sdpa", "mask", b, argument)
        shape = need_rank("sdpa", "mask", mask, *range(1, heads.rank + 1))
        need_type("sdpa", "mask", mask, ("boolean", *dtypes))
    else:
        mask = array_of("sdpa", "mask", argument)
        if mask.dtype == bool:
            mask = np.where(mask, 0.0, -np.inf)
        mask = np.atleast_1d(mask).astype(np.float64)
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


def _has_mode() -> bool:
    """Return whether SoftMax has the attribute mode."""
    return linked_version() >= (3, 8)


def applied(
    scores: Value,
    mask: Mask | None,
    heads: Heads,
    *,
    causal: str | None,
    zero: bool,
    name: str | None,
) -> tuple[Value, Value | None, dict[str, Any]]:
    """Mask scores.

    - `zero`: whether rows in which all keys are masked count as 0
    - returns: what the result of the attention has to be multiplied by
    - returns: the attributes of SoftMax
    """
    b, chosen = scores.builder, None
    if isinstance(mask, Value) and mask.dtype == "boolean":
        if -1 not in (mask.shape or ()):
            mask = _additive(mask, scores.dtype, name=name)
        elif causal or heads.regroup or not _has_mode():  # 3.13 fails at an Add before a Select
            mask = _additive_on_host(mask, scores.dtype, name=name)
        else:
            mask, chosen = None, mask
    if causal and isinstance(mask, Value):
        mask = _sum(mask, heads, causal, name=name)
    elif causal:
        table = _causal_table(heads, causal)
        mask = table if mask is None else mask + table
    # Whether a row of a mask to add masks all keys, or may do so if that is not known yet.
    rows: Array | bool = chosen is not None or isinstance(mask, Value)
    if mask is not None and not isinstance(mask, Value):
        rows = np.all(np.isneginf(mask), -1, keepdims=True)
    zero = zero and bool(np.any(rows))
    factor = None
    if zero and not _has_mode():
        if isinstance(mask, Value):
            mask, factor = _shown(mask, heads, name=name)
        elif mask is not None and not isinstance(rows, bool):
            mask = np.where(rows, 0.0, mask)
            shown = np.where(rows, 0.0, 1.0) * np.ones(_width(rows.shape, heads))
            factor = b.constant(shown, scores.dtype)
    if mask is not None:
        added = _addend(mask, heads, scores, name)
        scores = op(b, "Add", scores, added, dtype=scores.dtype, name=part(name, "masked"))
    if chosen is not None:
        scores = _selected(scores, chosen, name)
    return scores, factor, {"mode": "inf_as_zero"} if zero and _has_mode() else {}


# -- causal masks


def with_causal(
    mask: Mask | None,
    query: Value,
    key: Value,
    heads: Heads,
    causal: str,
    dtype: str,
    name: str | None,
) -> Value:
    """Return a mask to add with a causal one for the numbers of queries and keys of each call.

    It is a host step: oneDNN has no op that tells how many keys there are.
    """
    more = [] if mask is None else [mask]
    combined: Value = query.builder.call(
        partial(_made_with_causal, causal, heads.rank, dtype),
        query,
        key,
        *more,
        outputs=partial(_shape_with_causal, heads.rank, dtype),
        name=part(name, "causal mask"),
    )
    return combined


def _made_with_causal(
    causal: str, rank: int, dtype: str, query: Array, key: Array, mask: Array | None = None
) -> Array:
    table = _table(query.shape[-2], key.shape[-2], causal, rank)
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        table = table + added
    return _rounded(table, dtype).astype(array_dtype(dtype))


def _shape_with_causal(
    rank: int, dtype: str, query: tuple[int, ...], key: tuple[int, ...], mask: tuple[int, ...] = ()
) -> Any:
    table = (*(1,) * (rank - 2), query[-2], key[-2])
    whole = (1,) * (rank - len(mask)) + mask
    return [(tuple(m if t == 1 else t for t, m in zip(table, whole, strict=True)), dtype)]


def hides_nothing(heads: Heads, causal: str) -> bool:
    """Return whether all queries see all keys: a single one at the end does, as in decoding."""
    return heads.queries == 1 if causal == "bottom_right" else heads.keys == 1


def _causal_table(heads: Heads, causal: str) -> Array:
    """Make the mask to add to scores: -inf for keys after the query."""
    return _table(heads.queries, heads.keys, causal, heads.rank)


def _table(queries: int, keys: int, causal: str, rank: int) -> Array:
    offset = keys - queries if causal == "bottom_right" else 0
    hidden = np.arange(queries)[:, None] + offset < np.arange(keys)
    return np.where(hidden, -np.inf, 0.0).reshape((1,) * (rank - 2) + hidden.shape)


# -- rows in which all keys are masked


@once
def _shown(x: Value, heads: Heads, *, name: str | None) -> tuple[Value, Value]:
    """Replace rows of -inf by rows of 0.

    Return what to multiply the attention's result by too: 0 in these rows, 1 in others.
    """
    b, dtype = x.builder, x.dtype
    if x.ndim == 1:
        x = reshape(x, (1, -1), part(name, "mask of 2 dims"))
    shape = tuple(x.shape or ())
    largest = b.constant([float(float_info(dtype).max)], dtype)
    # -inf stays, all other numbers become 0 or more, and so 1. ReduceMax of -inf alone would give
    # the least finite number, which masks no key.
    above = op(b, "Add", x, largest, name=part(name, "mask above 0"))
    seen = op(b, "HardSigmoid", above, alpha=1.0, beta=1.0, name=part(name, "keys seen"))
    rows = _largest(seen, [len(shape) - 1], part(name, "rows seen"))
    # 0 in rows to show, -inf in others. oneDNN has a fast kernel for products with one column, but
    # not for an operand that varies by row; and it keeps a NaN of the second operand only.
    least = op(b, "MatMul", rows, _columns(seen, name), name=part(name, "twice rows seen"))
    least = op(b, "Multiply", least, largest, name=part(name, "least"))
    finite = op(b, "Maximum", least, x, name=part(name, "shown"))
    return finite, _factor(rows, heads, name)


def _columns(seen: Value, name: str | None) -> Value:
    """Return a row with -2 for each key."""
    b, shape = seen.builder, tuple(seen.shape or ())
    if shape[-1] != -1:
        return b.constant(np.full((1, shape[-1]), -2.0), seen.dtype)
    ones = op(b, "HardSigmoid", seen, alpha=0.0, beta=1.0, name=part(name, "ones"))
    row = _largest(ones, list(range(len(shape) - 1)), part(name, "row of ones"))
    return op(b, "Multiply", row, b.constant([-2.0], seen.dtype), name=part(name, "columns"))


def _largest(x: Value, axes: list[int], name: str | None) -> Value:
    """Return the largest elements along axes."""
    b = x.builder
    dims = {(x.shape or ())[i] for i in axes}
    # oneDNN compiles no ReduceMax over single elements.
    if dims == {1}:
        return x
    if dims <= {1, -1}:
        unknown = next(i for i in axes if (x.shape or ())[i] == -1)
        x = op(b, "Concat", x, x, axis=unknown, name=part(name, "twice"))
    return op(b, "ReduceMax", x, axes=axes, keep_dims=True, name=name)


def _width(rows: tuple[int, ...], heads: Heads) -> int:
    """Return how wide factors for such rows must be for a fast kernel of Multiply."""
    by_head = rows[-2:-1] == (1,) and any(d != 1 for d in rows[:-2])
    return 1 if by_head or heads.value_size == -1 else heads.value_size


def _factor(rows: Value, heads: Heads, name: str | None) -> Value:
    width = _width(tuple(rows.shape or ()), heads)
    if width == 1:
        return rows
    wide = rows.builder.constant(np.ones((1, width)), rows.dtype)
    factor = op(rows.builder, "MatMul", rows, wide, name=part(name, "wide factor"))
    # A copy, as 3.7 writes out of bounds when it fuses a product with an op that widens it.
    return op(rows.builder, "Reorder", factor, name=part(name, "factor"))


# -- what is added


@once
def _sum(mask: Value, heads: Heads, causal: str, *, name: str | None) -> Value:
    table = mask.builder.constant(_causal_table(heads, causal), mask.dtype)
    return op(mask.builder, "Add", mask, table, name=part(name, "mask and causal"))


@once
def _additive(mask: Value, dtype: str, *, name: str | None) -> Value:
    """Return 0 where a boolean value is true, and -inf elsewhere; all dims must be known.

    An Add fused into attention takes oneDNN 3.13 less time than a Select: 0.45 to 0.8 times.
    """
    b = mask.builder
    zeros, hidden = (b.constant(a, dtype) for a in (np.zeros(mask.shape or ()), [-np.inf]))
    return op(b, "Select", mask, zeros, hidden, name=part(name, "mask added"))


@once
def _additive_on_host(mask: Value, dtype: str, *, name: str | None) -> Value:
    """Return 0 where a boolean value is true, and -inf elsewhere, where no op can: a host step."""
    summand: Value = mask.builder.call(
        partial(_hidden, dtype),
        mask,
        outputs=[(mask.shape or (), dtype)],
        name=part(name, "mask added"),
    )
    return summand


def _hidden(dtype: str, mask: Array) -> Array:
    hidden: Array = np.where(mask, 0.0, -np.inf).astype(array_dtype(dtype))
    return hidden


def _selected(scores: Value, mask: Value, name: str | None) -> Value:
    """Return the scores, with -inf for keys that a boolean value hides."""
    hidden = scores.builder.constant([-np.inf], scores.dtype)
    return op(scores.builder, "Select", mask, scores, hidden, name=part(name, "masked"))


def _addend(mask: Mask, heads: Heads, scores: Value, name: str | None) -> Value:
    """Return the mask as a value with the scores' rank and data type."""
    shape = tuple(mask.shape or ())
    whole = (1,) * (heads.rank - len(shape)) + shape
    if not isinstance(mask, Value):
        rounded = _rounded(np.reshape(mask, whole), scores.dtype)
        value = scores.builder.constant(rounded, scores.dtype)
    elif len(shape) < heads.rank and (heads.regroup or len(shape) > 2):
        # A mask for each head must have the scores' dims, and a mask that is regrouped below 4:
        # oneDNN computes wrong results with fewer.
        value = mask[(None,) * (heads.rank - len(shape))]
    else:
        value = mask
    if not heads.regroup:
        return value
    unknown = whole.count(-1)
    if unknown > 1 and 1 in (whole[1], heads.kv_heads):  # which a reshape can't tell apart
        return value[:, None]
    if unknown - (whole[0] == -1) > 1:
        groups = [v[:, None] for v in value.split(heads.kv_heads, 1)]
        return op(value.builder, "Concat", *groups, axis=1, name=part(name, "mask regrouped"))
    group = (1, 1) if whole[1] == 1 else (heads.kv_heads, heads.heads // heads.kv_heads)
    return reshape(value, (whole[0], *group, *whole[2:]), part(name, "mask regrouped"))


def _rounded(mask: Array, dtype: str) -> Array:
    """Replace finite numbers that a data type can't hold, as only -inf hides a key.

    By half of its largest number: a score may be added.
    """
    largest = float(float_info(dtype).max)
    beyond = np.isfinite(mask) & (np.abs(mask) > largest)
    return np.where(beyond, np.copysign(largest / 2, mask), mask)

"""Rotary position embeddings: `rope` and its tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.arguments import need_whole
from ..base.dtypes import array_dtype
from ..base.errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError
from ..model.building.value import Value
from ..ops.terms import shape_text
from .arguments import FLOATS, array_of, need_dtype, need_rank, need_type, need_value, operand
from .parts import op, part, reshape

Array = npt.NDArray[Any]


def _tables(size: int, base: float, dtype: str, positions: Array) -> tuple[Array, Array]:
    angles = positions.astype(np.float64)[..., None] * base ** (-np.arange(0, size, 2) / size)
    to = array_dtype(dtype)
    return np.cos(angles).astype(to), np.sin(angles).astype(to)


def _shapes(size: int, dtype: str, positions: tuple[int, ...]) -> Any:
    return [((*positions, size // 2), dtype)] * 2


def rope_tables(
    positions: Any, size: int, *, base: float = 10000.0, dtype: str = "f32", name: str | None = None
) -> tuple[Any, Any]:
    """Return the cosines and sines that `rope` takes, of position * base**(-2 i / size).

    Parameters
    ----------
    positions : Value or array
        (..., tokens), whole numbers. A host step makes the tables of a value, at each call.
    size : int
        The number of elements that are rotated; even.
    base : float
    dtype : str
        ``f32``, ``bf16`` or ``f16``; angles are computed in f64, and the results rounded once.
    name : str, optional
        Name of the host step.

    Returns
    -------
    tuple of two values or arrays
        (..., tokens, size / 2) each; arrays if `positions` is an array.
    """
    if need_whole("rope_tables: size", size, 2) % 2:
        raise InvalidArgumentsError(f"rope_tables: size must be even, got {size}")
    need_dtype("rope_tables", "dtype", dtype, FLOATS)
    if not isinstance(positions, Value):
        return _tables(size, base, dtype, array_of("rope_tables", "positions", positions))
    tables: tuple[Value, Value] = positions.builder.call(
        partial(_tables, size, float(base), dtype),
        positions,
        outputs=partial(_shapes, size, dtype),
        name=name,
    )
    return tables


def rope(
    x: Value, cos: Any, sin: Any, *, interleaved: bool = False, name: str | None = None
) -> Value:
    """Add a rotary position embedding: pairs of elements, as points of a plane, are rotated.

    Parameters
    ----------
    x : Value
        (..., tokens, size) of f32, bf16 or f16, as queries and keys of attention are.
    cos, sin : Value or array
        (..., tokens, rotated / 2), which broadcast to the pairs of `x`, of its data type; see
        `rope_tables`. Elements after the first `rotated` stay as they are.
    interleaved : bool
        The pairs are neighbours, (0, 1), (2, 3) and so on. By default they are in the two halves:
        (0, rotated / 2), (1, rotated / 2 + 1) and so on.
    name : str, optional
        Name of the result, and prefix of the other ops' names.

    Returns
    -------
    Value
        It has the shape and data type of `x`.

    Notes
    -----
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), pairs
    neighbours, as do ONNX's RotaryEmbedding with ``interleaved=1`` and GPT-J. The halves are those
    of GPT-NeoX and of Hugging Face's Llama.

    It is x * cos + swapped * sin, where `swapped` has the elements of each pair exchanged, and each
    product and the sum are rounded to the data type.
    """
    x = need_value("rope", "x", x)
    b = x.builder
    need_type("rope", "x", x, FLOATS)
    shape = need_rank("rope", "x", x)
    tables = [operand("rope", what, b, t, x.dtype) for what, t in (("cos", cos), ("sin", sin))]
    for what, table in zip(("cos", "sin"), tables, strict=True):
        if table.dtype != x.dtype:
            raise InvalidDataTypeError(
                f"rope: {what} must be {x.dtype}, got {table.dtype}; write rope_tables(..., "
                f"dtype={str(x.dtype)!r})"
            )
        _need_pairs(what, need_rank("rope", what, table), shape)
    if tables[0].shape != tables[1].shape:
        raise InvalidShapeError(
            f"rope: sin must have the shape of cos, {shape_text(tables[0].shape)}, got "
            f"{shape_text(tables[1].shape)}"
        )
    half = (tables[0].shape or ())[-1]
    rotated = x if 2 * half == shape[-1] else x[..., : 2 * half]
    cosines, sines = tables
    negative = -sines
    if interleaved:
        pairs = reshape(rotated, (*_kept(shape[:-1], "x"), half, 2), part(name, "pairs"))
        swapped = _joined(pairs[..., 1:], pairs[..., :1], part(name, "swapped pairs"))
        swapped = reshape(swapped, (*_kept(shape[:-1], "x"), 2 * half), part(name, "swapped"))
        cosines = _twice(cosines, cosines, part(name, "cos"))
        sines = _twice(negative, sines, part(name, "sin"))
    else:
        swapped = _joined(rotated[..., half:], rotated[..., :half], part(name, "swapped"))
        cosines = _joined(cosines, cosines, part(name, "cos"))
        sines = _joined(negative, sines, part(name, "sin"))
    whole = 2 * half == shape[-1]
    across = op(b, "Multiply", swapped, sines, name=part(name, "across"))
    along = op(b, "Multiply", rotated, cosines, name=part(name, "along"))
    made = op(b, "Add", along, across, name=name if whole else part(name, "rotated"))
    return made if whole else _joined(made, x[..., 2 * half :], name)


def _need_pairs(what: str, table: tuple[int, ...], shape: tuple[int, ...]) -> None:
    wanted = (*shape[:-1], shape[-1] // 2)
    fits = (
        0 < len(table) <= len(shape)
        and 0 < table[-1] <= wanted[-1]
        and all(
            t in (1, w) or -1 in (t, w) for t, w in zip(table[-2::-1], wanted[-2::-1], strict=False)
        )
    )
    if not fits:
        raise InvalidShapeError(
            f"rope: {what} must be (..., tokens, rotated / 2) that broadcasts to "
            f"{shape_text(wanted)}, got {shape_text(table)}"
        )


def _kept(dims: tuple[int, ...], what: str) -> tuple[int, ...]:
    if dims[1:].count(-1) > 1:
        raise InvalidShapeError(
            f"rope: interleaved=True needs {what} with at most one unknown dim after the first, "
            f"got {shape_text(dims)}"
        )
    return dims


def _joined(one: Value, other: Value, name: str | None) -> Value:
    return op(one.builder, "Concat", one, other, axis=-1, name=name)


def _twice(even: Value, odd: Value, name: str | None) -> Value:
    """Return a table in which the elements of two take turns."""
    shape = even.shape or ()
    pairs = _joined(even[..., None], odd[..., None], part(name, "pairs"))
    return reshape(pairs, (*_kept(shape[:-1], "tables"), 2 * shape[-1]), name)

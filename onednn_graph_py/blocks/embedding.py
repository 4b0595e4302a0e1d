"""Embeddings: rows of a table, by whole numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy.typing as npt

from ..base.errors import InvalidIndexError
from ..model.building.value import Value
from .arguments import need_rank, need_type, need_value, operand

Array = npt.NDArray[Any]

_WHOLE = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


def _rows(name: str, table: Array, ids: Array) -> Array:
    rows = len(table)
    if ids.size and not (ids.min() >= 0 and ids.max() < rows):
        worst = ids.min() if ids.min() < 0 else ids.max()
        raise InvalidIndexError(f"{name}: ids must be from 0 to {rows - 1}, got {worst}")
    made: Array = table.take(ids, axis=0)
    return made


def embedding(ids: Value, table: Any, *, name: str | None = None) -> Value:
    """Add a lookup of rows: ``table[ids]``.

    It is a host step, as oneDNN Graph has no such op; see `GraphBuilder.call`.

    Parameters
    ----------
    ids : Value
        Whole numbers of any shape and integer type, from 0 to rows - 1.
    table : Value or array
        (rows, size) of any data type but 4-bit integers.
    name : str, optional

    Returns
    -------
    Value
        (..., size), of the data type of `table`.

    Raises
    ------
    InvalidIndexError
        At a call, an id is out of range; negative ones are.

    Notes
    -----
    ONNX calls it Gather, PyTorch ``torch.nn.functional.embedding``.
    """
    ids = need_value("embedding", "ids", ids)
    b = ids.builder
    need_type("embedding", "ids", ids, _WHOLE)
    rows = operand("embedding", "table", b, table)
    need_rank("embedding", "table", rows, 2)
    vectors: Value = b.call(
        partial(_rows, f"embedding {name!r}" if name else "embedding"),
        rows,
        ids,
        outputs=partial(_looked_up, rows.dtype),
        name=name,
    )
    return vectors


def _looked_up(dtype: str, table: tuple[int, ...], ids: tuple[int, ...]) -> Any:
    return [((*ids, table[1]), dtype)]

"""Scaled dot-product attention in f32, bf16 and f16: five ops, one partition.

MatMul, Divide, Add of a mask, SoftMax and MatMul become one fused kernel. The sizes are those of
oneDNN's own example and can be given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..dtypes import numpy_dtype
from ._arguments import DATA_TYPES, check_arguments
from ._attention import Attention
from ._report import Case, Skipped
from ._skips import cannot_run


def _mask(queries: int, sequence: int, batch: int) -> npt.NDArray[np.float32]:
    """Make a mask with which each query sees itself and earlier keys, less so the further away.

    In every other batch entry the last quarter of the keys is padding.
    """
    query, key = np.mgrid[:queries, :sequence]
    causal = np.where(key <= query, (key - query) / 16, -np.inf)
    padded = np.where(key < max(sequence - sequence // 4, 1), causal, -np.inf)
    return np.stack([padded if entry % 2 else causal for entry in range(batch)])[:, None].astype(
        np.float32
    )


def _arrays(attention: Attention) -> dict[int, npt.NDArray[Any]]:
    """Make arrays for the inputs, by id."""
    random = np.random.default_rng(0)
    dtype = numpy_dtype(attention.output.get_data_type())
    query, key, value, _, mask = (lt.get_dims() for lt in attention.inputs)
    batch, _, queries, sequence = mask
    return {
        0: random.standard_normal(query, np.float32).astype(dtype),
        1: random.standard_normal(key, np.float32).astype(dtype),
        2: random.uniform(-1, 1, value).astype(dtype),
        3: np.full(1, math.sqrt(query[-1]), dtype),
        4: _mask(queries, sequence, batch).astype(dtype),
    }


def run(
    engine_kind: str = "cpu",
    mb: int = 32,
    seq: int = 384,
    heads: int = 16,
    head_size: int = 64,
    query_num: int | None = None,
) -> Iterator[Case | Skipped]:
    """Run in each data type; `query_num` queries, as many as keys by default.

    Raises
    ------
    InvalidArgumentsError
        A size is not positive, or there is no such kind of engine.
    """
    queries = seq if query_num is None else query_num
    check_arguments(
        "sdpa", engine_kind, mb=mb, seq=seq, heads=heads, head_size=head_size, query_num=queries
    )
    rows, vectors = (mb, heads, queries, head_size), (mb, heads, seq, head_size)
    for data_type in DATA_TYPES:
        name = f"{data_type}, {mb}x{seq}, {heads} heads of {head_size}"
        if queries != seq:
            name += f", {queries} queries"
        mask = (mb, 1, queries, seq)
        attention = Attention(engine_kind, data_type, rows, vectors, mask, data_type)
        skipped = cannot_run(name, data_type, attention.net)
        yield skipped or attention.case(name, _arrays(attention))

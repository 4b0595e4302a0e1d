"""Compute the results of nodes whose operands are known: shapes, masks, and what weights become."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..base.errors import GraphFormatError
from .budget import Budget, work_of
from .inference import Inferred, NodeFacts, nbytes
from .loading import subgraphs
from .tensors import NUMPY, Shape, Tensor, same

MOST_KNOWN = 1 << 30
"""Bytes of a tensor that is computed while a model is prepared; a larger one is refused."""

QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""Ops on weights that oneDNN runs in fewer bytes, or fuses."""

RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
    }
)

SLOW = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "ConvInteger",
        "DeformConv",
        "QLinearConv",
        "LSTM",
        "GRU",
        "RNN",
        "Resize",
        "Upsample",
        "GridSample",
        "RoiAlign",
        "MaxPool",
        "AveragePool",
        "LpPool",
        "MaxUnpool",
        "DFT",
        "STFT",
        "Attention",
        "NonMaxSuppression",
        "ImageDecoder",
        "RegexFullMatch",
    }
)
"""Ops whose reference is a loop in Python, or takes time and memory that dims do not tell; they run
as those on other numbers do."""

MISTAKEN = frozenset({"BatchNormalization", "LRN"})
"""Ops whose reference computes something else: it moves statistics before opset 14, and sums over
channels for as many as there are images."""

MOVES = frozenset(
    {
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Expand",
        "Slice",
        "Split",
        "Identity",
        "Gather",
    }
)
"""Ops that touch no element; a region of nothing else is worth nothing."""

TYPED = frozenset({"BitCast", "CastLike"})  # ops that read the type of an operand


COUNTING = frozenset({"NonZero", "Unique", "Compress"})
"""Ops whose results have as many elements as they find, and never more than they read."""


def evaluated(
    fact: NodeFacts, operands: Sequence[Tensor | None], sets: int, budget: Budget
) -> list[Tensor] | None:
    """Compute the results of a node, for each set of dims.

    None if they do not follow from weights and dims, ONNX has no reference for the op, they are
    strings, whose size dims do not tell, or the budget is spent.
    """
    node = fact.node
    only = operands[0] if len(operands) == len(node.outputs) == 1 else None
    if node.domain == "" and node.op_type in ("Shape", "Size") and only is not None:
        sizes = [_size(node, shape) for shape in only.shapes]
        return [Tensor.of_arrays(tuple(sizes), "s64")]
    if any(o is not None and o.arrays is None for o in operands) or subgraphs(node):
        return None
    if node.op_type in QUANTIZING | RANDOM | SLOW | MISTAKEN or not fact.has_schema:
        return None
    columns: list[list[npt.NDArray[Any]]] = []
    inferred: list[Inferred] = []
    for index in range(sets):
        arrays = [None if o is None or o.arrays is None else o.arrays[index] for o in operands]
        if index and all(
            o is None or o.arrays is None or o.arrays[index] is o.arrays[0] for o in operands
        ):
            columns.append(columns[0])
            continue
        types = fact.infer(operands, index)
        if types is None:
            return None
        inferred = types
        for dtype, shape in inferred:
            require_sane(node, dtype, shape, MOST_KNOWN)
            if shape is None and node.op_type not in COUNTING:
                return None
        if any(dtype == "string" for dtype, _ in inferred):
            return None
        read = [None if o is None else o.shapes[index] for o in operands]
        write = [shape if shape is not None else read[0] or () for _, shape in inferred]
        taken = sum(nbytes(s, dtype) for s, (dtype, _) in zip(write, inferred, strict=True))
        if not budget.takes(node, work_of(node, read, write), taken):
            return None
        found = _computed(fact, arrays, inferred)
        if found is None or not _as_inferred(found, inferred):
            return None
        columns.append(found)
    dtypes = [dtype for dtype, _ in inferred]
    made = []
    for dtype, arrays in zip(dtypes, zip(*columns, strict=True), strict=False):
        first = arrays[0]
        made.append(Tensor.of_arrays(tuple(first if same(first, a) else a for a in arrays), dtype))
    return made


def _computed(
    fact: NodeFacts, arrays: Sequence[npt.NDArray[Any] | None], inferred: Sequence[Inferred]
) -> list[npt.NDArray[Any]] | None:
    """Compute f16 and bf16 in f32, and round once: the reference rounds each of its steps."""
    if fact.node.op_type in MOVES | TYPED:
        return fact.evaluate(arrays)
    narrow = [NUMPY["f16"], NUMPY["bf16"]]
    wide = [a.astype(np.float32) if a is not None and a.dtype in narrow else a for a in arrays]
    found = fact.evaluate(wide)
    types = [NUMPY.get(dtype) for dtype, _ in inferred]
    return found and [
        f.astype(t) if t in narrow and f.dtype == np.float32 else f
        for f, t in zip(found, types, strict=False)
    ]


def _size(node: ir.Node, shape: Shape) -> npt.NDArray[Any]:
    if node.op_type == "Size":
        return np.array(math.prod(shape), np.int64)
    start, end = node.attributes.get("start"), node.attributes.get("end")
    taken = slice(start and start.as_int(), end and end.as_int())
    return np.array(shape[taken], np.int64)


def _as_inferred(arrays: Sequence[npt.NDArray[Any]], inferred: Sequence[Inferred]) -> bool:
    """Return whether the reference gave what the op's definition promises."""
    return len(arrays) >= len(inferred) and all(
        (dtype not in NUMPY or a.dtype == NUMPY[dtype]) and (shape is None or a.shape == shape)
        for a, (dtype, shape) in zip(arrays, inferred, strict=False)
    )


def require_sane(node: ir.Node, dtype: str, shape: Shape | None, most: int) -> None:
    """Raise if a result is larger than what there may be."""
    if shape is not None and nbytes(shape, dtype) > most:
        raise GraphFormatError(
            f"node {node.name!r} ({node.op_type}): its result of shape {list(shape)} would take "
            f"{nbytes(shape, dtype):,} bytes; here it may be {most:,}"
        )

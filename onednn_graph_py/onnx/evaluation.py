"""Compute the results of nodes whose operands are known: shapes, masks, and what weights become."""

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..base.errors import GraphFormatError
from .inference import Inferred, NodeFacts, nbytes
from .loading import subgraphs
from .options import Most
from .tensors import NUMPY, Shape, Tensor, same

MOST_COMPUTED = 1 << 30
"""Bytes of results that are alive together, and four times what the weights take beside."""

MOST_WORK = 1 << 30
"""Elements read and written, and products; and 16 for each byte of the weights beside."""

_PYTHON = 300  # how much longer a loop of Python takes for an element than NumPy

LOOPS = frozenset({
    "CausalConvWithState", "Col2Im", "GatherND", "GlobalLpPool", "GlobalMaxPool", "LRN",
    "LinearAttention", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND",
    "TensorScatter", "TfIdfVectorizer",
})  # fmt: skip
"""Ops whose reference visits each element in Python; those of other domains than ONNX's do."""


class Budget:
    """The bytes and work that are left; nodes that would take more stay in the model.

    By default it is in proportion to the bytes of the model's weights.
    """

    def __init__(self, weights: Iterable[int] = (), most: Most = (None, None)) -> None:
        given = sum(weights)
        computed, work = most
        default = min(MOST_COMPUTED + 4 * given, memory() // 2)
        self.bytes = default if computed is None else computed
        self.work = MOST_WORK + 16 * given if work is None else work

    def takes(self, node: ir.Node, work: int, nbytes: int) -> bool:
        """Return whether a node may be computed, and note what it takes."""
        if _REFUSED in node.meta:
            return False
        if work > self.work or nbytes > self.bytes:
            node.meta[_REFUSED] = True  # also with another budget: each would be spent anew
            return False
        self.work -= work
        self.bytes -= nbytes
        return True


_REFUSED = "onednn_graph_py: too much to compute"


def memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def work_of(node: ir.Node, read: Sequence[Shape | None], made: Sequence[Shape | None]) -> int:
    """Count the elements that a node reads and writes, and its products."""
    elements = sum(math.prod(s) for s in (*read, *made) if s is not None)
    if node.domain != "" or node.op_type in LOOPS:
        return _PYTHON * elements
    first = read[0] if read else None
    if node.op_type == "Einsum":
        equation = node.attributes["equation"].as_string() if "equation" in node.attributes else ""
        return elements + _products(equation, read)
    if not first:
        return elements
    if node.op_type in ("MatMul", "MatMulInteger", "QLinearMatMul"):
        return elements + first[-1] * math.prod(made[0] or ())
    if node.op_type == "Gemm":
        return elements + math.prod(first) * (made[0] or (1,))[-1]
    return elements * first[-1] if node.op_type == "Det" else elements


def _products(equation: str, shapes: Sequence[Shape | None]) -> int:
    """Count the products of an Einsum that sums over all its indices at once."""
    sizes: dict[str, int] = {}
    others = 1
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    for term, shape in zip(terms, shapes, strict=False):
        head, dots, tail = term.partition("...")
        dims = shape or ()
        behind = len(dims) - len(tail)
        for letter, size in (
            *zip(head, dims, strict=False),
            *zip(tail, dims[behind:], strict=False),
        ):
            sizes[letter] = max(size, sizes.get(letter, 1))
        if dots:
            others = max(others, math.prod(dims[len(head) : behind]))
    return math.prod(sizes.values()) * others * len(shapes)


MOST_KNOWN = 1 << 30
"""Bytes of a tensor that is computed while a model is prepared; a larger one is refused."""

QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""Ops on weights that oneDNN runs in fewer bytes, or fuses."""

DRAWN = frozenset({"Bernoulli", "Multinomial", "Dropout"})
"""Ops that draw numbers at each call, besides those whose names begin with Random."""

SLOW = frozenset({
    "Conv", "ConvTranspose", "ConvInteger", "DeformConv", "QLinearConv", "LSTM", "GRU", "RNN",
    "Resize", "Upsample", "GridSample", "RoiAlign", "MaxPool", "AveragePool", "LpPool", "MaxUnpool",
    "DFT", "STFT", "Attention", "NonMaxSuppression", "ImageDecoder", "RegexFullMatch",
})  # fmt: skip
"""Ops whose reference is a loop in Python, or takes time and memory that dims do not tell; they run
as those on other numbers do."""

MISTAKEN = frozenset({"BatchNormalization", "LRN"})
"""Ops whose reference computes something else: it moves statistics before opset 14, and sums over
channels for as many as there are images."""

MOVES = frozenset({
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "Split",
    "Identity", "Gather",
})  # fmt: skip
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
    unknown = not fact.has_schema or node.op_type.startswith("Random")
    if unknown or node.op_type in QUANTIZING | DRAWN | SLOW | MISTAKEN:
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
        with np.errstate(all="ignore"):
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

"""The budget for preparing a model: bytes and work of all nodes together."""

import math
import os
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from .options import Most
from .tensors import Shape

MOST_COMPUTED = 1 << 30
"""Bytes of results that are alive together, and four times what the weights take beside."""

MOST_WORK = 1 << 30
"""Elements read and written, and products; and 16 for each byte of the weights beside."""

_PYTHON = 300  # how much longer a loop of Python takes for an element than NumPy

LOOPS = frozenset(
    {
        "CausalConvWithState",
        "Col2Im",
        "GatherND",
        "GlobalLpPool",
        "GlobalMaxPool",
        "LRN",
        "LinearAttention",
        "ReverseSequence",
        "Scatter",
        "ScatterElements",
        "ScatterND",
        "TensorScatter",
        "TfIdfVectorizer",
    }
)
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

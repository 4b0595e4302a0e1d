"""An estimate of the arithmetic of nodes, for shares."""

import math
from collections.abc import Callable, Mapping

import onnx_ir as ir

from .edits import integer
from .survey import Survey
from .tensors import Shape


def _product(a: Shape, b: Shape, made: Shape) -> int:
    return 2 * math.prod(made) * (a[-1] if a else 1)


def _gemm(node: ir.Node, shapes: list[Shape], made: Shape) -> int:
    return 2 * math.prod(made) * shapes[0][0 if integer(node, "transA") else -1]


def _recurrent(shapes: list[Shape]) -> int:
    """Count the products of LSTM, GRU and RNN: both weights, for each step and row."""
    steps, rows = shapes[0][:2]
    return 2 * steps * rows * (math.prod(shapes[1]) + math.prod(shapes[2]))


_MATMULS = ("MatMul", "MatMulInteger", "MatMulNBits", "FusedMatMul")
_OPERANDS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(_MATMULS, (0, 1)),
    "QLinearMatMul": (0, 3),
}
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}

_RULES: Mapping[str, Callable[[ir.Node, list[Shape], Shape], int]] = {
    **{
        name: lambda n, s, m, at=at: _product(s[at[0]], s[at[1]], m)  # type: ignore[misc]
        for name, at in _OPERANDS.items()
    },
    **{
        name: lambda n, s, m, at=at: 2 * math.prod(m) * math.prod(s[at][1:])  # type: ignore[misc]
        for name, at in _CONVOLUTIONS.items()
    },
    "ConvTranspose": lambda n, s, m: 2 * math.prod(s[0]) * math.prod(s[1][1:]),
    "Gemm": _gemm,
    **{name: lambda n, s, m: _recurrent(s) for name in ("LSTM", "GRU", "RNN")},
    "Attention": lambda n, s, m: 4 * math.prod(m) * s[1][-2],
}


PRODUCTS = frozenset(_RULES)
"""Ops that do more arithmetic than their results have elements."""


def operations(node: ir.Node, found: Survey) -> int:
    """Return about how many operations a node does: those of products, else the elements made."""
    results = [found.tensors[v].shapes[0] for v in node.outputs if v in found.tensors]
    if not results:
        return 1
    rule = _RULES.get(node.op_type)
    shapes = [
        found.tensors[v].shapes[0] if v is not None and v in found.tensors else ()
        for v in node.inputs
    ]
    try:
        return rule(node, shapes, results[0]) if rule else sum(map(math.prod, results))
    except (IndexError, ValueError):  # a product of operands that are not what they should be
        return sum(map(math.prod, results))


def share(found: Survey, left: Mapping[ir.Node, str]) -> float:
    """Return which part of the arithmetic is not in the nodes that are left, from 0 to 1."""
    counted = {n: operations(n, found) for n in (*found.calls, *found.rest)}
    everything = sum(counted.values())
    outside = sum(c for n, c in counted.items() if n in left or n in found.rest)
    return 1 - outside / everything if everything else 1.0

"""Which nodes oneDNN takes, the regions and islands that follow, and the work of each node."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

import onnx_ir as ir

from ..frontends.division import Division
from ..frontends.regions import Part, split
from .assembly import Assembly
from .edits import integer
from .evaluation import MOVES
from .host_steps import HOSTED
from .lowering.table import LOWERINGS, NotLowered
from .survey import Survey, read_by
from .tensors import Shape


def _recurrent(shapes: list[Shape]) -> int:
    """Count the products of LSTM, GRU and RNN: both weights, for each step and row."""
    steps, rows = shapes[0][:2]
    return 2 * steps * rows * (math.prod(shapes[1]) + math.prod(shapes[2]))


_MATMULS = ("MatMul", "MatMulInteger", "MatMulNBits", "FusedMatMul", "QLinearMatMul")
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}

_RULES: Mapping[str, Callable[[ir.Node, list[Shape], Shape], int]] = {
    **dict.fromkeys(_MATMULS, lambda n, s, m: 2 * math.prod(m) * (s[0][-1] if s[0] else 1)),
    **{
        name: lambda n, s, m, at=at: 2 * math.prod(m) * math.prod(s[at][1:])  # type: ignore[misc]
        for name, at in _CONVOLUTIONS.items()
    },
    "ConvTranspose": lambda n, s, m: 2 * math.prod(s[0]) * math.prod(s[1][1:]),
    "Gemm": lambda n, s, m: 2 * math.prod(m) * s[0][0 if integer(n, "transA") else -1],
    **dict.fromkeys(("LSTM", "GRU", "RNN"), lambda n, s, m: _recurrent(s)),
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


MIN_OPS = 2
"""Connected nodes that are fewer than these are no region, unless one of them is worth it."""

WORTH = PRODUCTS | {"Einsum"}
"""Ops that are worth a region of their own."""


def is_worth(nodes: Sequence[ir.Node], on_host: Container[ir.Node] = ()) -> bool:
    """Return whether connected nodes are worth a region; host steps are not."""
    return (
        any(n.op_type in WORTH for n in nodes)
        or sum(n.op_type not in MOVES and n not in on_host for n in nodes) >= MIN_OPS
    )


def divided(trial: Assembly, found: Survey) -> Division[ir.Node]:
    """Divide the nodes of a survey; `trial`, an empty assembly of it, gets those that it lowers."""
    reasons: dict[ir.Node, str] = {}
    on_host: set[ir.Node] = set()
    for node in found.calls:
        try:
            if node in trial.section.slower:
                raise NotLowered(trial.section.slower[node])
            if trial.lower(node):
                on_host.add(node)
        except NotLowered as e:
            reasons[node] = str(e)
    if not reasons:
        return Division([Part(tuple(found.calls), True)] if found.calls else [], {}, on_host)
    made = {v: n for n in found.calls for v in n.outputs}

    def reads(node: ir.Node) -> list[ir.Node]:
        # A lowering takes sizes from the shapes; what is known comes from nowhere.
        return [made[v] for v in found.read_by(node) if v in made]

    worth = partial(is_worth, on_host=on_host)
    return Division.of(found.calls, reads, reasons, worth, on_host)


def first_island(rest: Sequence[ir.Node], breaking: Sequence[ir.Node]) -> list[ir.Node]:
    """Return the nodes of a rest that run before all that oneDNN may take, and `breaking`."""
    made = {v: n for n in rest for v in n.outputs}

    def reads(node: ir.Node) -> list[ir.Node]:
        return [made[v] for v in read_by(node) if v in made]

    def can(node: ir.Node) -> bool:
        lowered = (node.domain, node.op_type) in LOWERINGS and node.op_type not in HOSTED
        return lowered and node not in breaking

    def worth(nodes: Sequence[ir.Node]) -> bool:
        return any(n.op_type in WORTH for n in nodes)

    parts = split(rest, reads, can, worth)
    return list(parts[0].nodes) if not parts[0].is_region else list(breaking)

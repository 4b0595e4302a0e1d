"""Which nodes oneDNN takes, and the regions and islands that follow from it."""

from collections.abc import Container, Sequence
from functools import partial

import onnx_ir as ir

from ..frontends.division import Division
from ..frontends.regions import Part, split
from .assembly import Assembly
from .evaluation import MOVES
from .host_steps import HOSTED
from .lowering.table import LOWERINGS, NotLowered
from .survey import Survey, read_by
from .work import PRODUCTS

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

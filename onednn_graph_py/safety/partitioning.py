"""Ops that crash oneDNN's search for fusions when they are in one graph."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from .calls import Op

_Op = TypeVar("_Op", bound=Any)  # an op of the mirror, or of a builder

CRASHING = frozenset({"Convolution", "Dequantize"})
"""The kinds of ops in every graph that crashes oneDNN while it looks for fusions."""


def _crashing(ops: Sequence[_Op]) -> Iterator[tuple[_Op, _Op]]:
    """Yield each Dequantize with the Convolution that reads its result, if no op makes the weights.

    oneDNN's matcher may then look up the op that makes the weights although there is none (3.7.2 to
    3.13.2); whether it does depends on the other ops.
    """
    made = {t.id: op for op in ops for t in op.outputs}
    for op in ops:
        if op.kind != "Convolution" or len(op.inputs) < 2 or op.inputs[1].id in made:
            continue
        maker = made.get(op.inputs[0].id)
        if maker is not None and maker.kind == "Dequantize":
            yield maker, op


def partitioned_apart(nodes: Sequence[_Op]) -> list[_Op]:
    """Return the ops that need a graph of their own, as the mirror refuses to partition them."""
    return list({maker.id: maker for maker, _ in _crashing(nodes)}.values())


def partitioning_crash(ops: Sequence[Op]) -> str | None:
    """Find ops that may crash oneDNN while it looks for fusions in a graph.

    - returns: a message that names the ops and a remedy; None if there are no such ops
    """
    for maker, op in _crashing(ops):
        return (
            f"{op.label}: a convolution of the result of {maker.label}, with weights that no op "
            "makes, crashes oneDNN's search for fusions; quantize the weights too, put the two "
            "ops in two graphs, or use policy debug"
        )
    return None

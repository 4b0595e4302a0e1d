"""A refused call, made again in a process in which oneDNN prints why it refuses."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ... import _core
from ..errors import OneDNNError
from ..processes import printed


def made_again(call: dict[str, Any]) -> tuple[str, str]:
    """Make a refused call; return what oneDNN printed, or why that is not known."""
    why = "oneDNN made no partition of these ops"
    for attempt in _attempts(call):
        refused, said = printed(partial(_is_refused, attempt))
        if refused:
            return said, ""
        why = "oneDNN took the same call in another process"
    return "", why


def _is_refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OneDNNError as e:
        if e.refused is None:  # this package refused it, before oneDNN could
            raise
        return True
    return False


def _attempts(call: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """The call on what it needs; on several partitions if more than one has the same ops."""
    name, kind = call["call"], call["engine_kind"]
    ops = [_op(*op) for op in call["ops"]]
    if name == "partition":
        yield partial(_core.partition, ops[0], kind)
        return
    graph = _core.graph(kind)
    graph.set_fpmath_mode(*call["fpmath"])
    if name == "add_op":
        yield partial(graph.add_op, ops[0])
        return
    for op in ops:
        graph.add_op(op)
    if name == "finalize":
        yield graph.finalize
        return
    graph.finalize()
    if name == "get_partitions":
        yield partial(graph.get_partitions, call["policy"])
        return
    engine = _core.engine(kind, 0)
    for policy in ("fusion", "debug"):
        for made in graph.get_partitions(policy):
            if set(made.get_ops()) == set(call["partition"]):
                yield partial(made.compile, call["inputs"], call["outputs"], engine)


def _op(
    number: int,
    kind: str,
    name: str,
    inputs: list[_core.logical_tensor],
    outputs: list[_core.logical_tensor],
    attrs: dict[str, Any],
) -> _core.op:
    made = _core.op(number, kind, inputs, outputs, name)
    for attribute, value in attrs.items():
        made.set_attr(attribute, value)
    return made

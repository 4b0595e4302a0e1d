"""The process that makes a refused call again, in which oneDNN prints why it refuses."""

import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ... import _core
from ..errors import OneDNNError
from ..processes import end_without_caller

MAKES = "makes the call\n"  # printed before the call; oneDNN's lines follow
TAKEN = "taken\n"  # printed after the call if oneDNN took it


def main() -> None:
    """Make the call that is on the standard input."""
    end_without_caller(sys.stdout.fileno())
    made = 0
    for attempt in _attempts(pickle.load(sys.stdin.buffer)):
        print(MAKES, end="", flush=True)
        made += 1
        try:
            attempt()
        except OneDNNError as e:
            if e.refused is None:  # this package refused it, before oneDNN could
                raise
            return
    if not made:
        sys.exit("oneDNN made no partition of these ops")
    print(MAKES + TAKEN, end="", flush=True)


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

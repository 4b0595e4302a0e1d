"""Questions about refused calls, for `OneDNNError.reason`: `ask`, `with_reason`."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .. import _core
from .errors import OneDNNError
from .processes import Isolated, failure, instructions, printed, quiet

_UNKNOWN = "not known: "
# ``onednn_verbose,v1,graph,create:check,add_op,<message>,<path of source>:<line>``
_LINE = re.compile(r"onednn_verbose,.*?(:check|:dispatch|,error),(.*)")
_PLACE = re.compile(r"(.*),(?:[^,]*/)?([^/,]*:\d+)")


def ask(error: OneDNNError, timeout: float) -> str:
    """Find out why oneDNN refused a call, and keep the answer; see `OneDNNError.reason`."""
    call = error.refused
    assert call is not None
    of_ops = [tensors for *_, inputs, outputs, _ in call["ops"] for tensors in (inputs, outputs)]
    # A tensor with an opaque layout is None.
    if None in (*of_ops, call.get("inputs", ()), call.get("outputs", ())):
        return (
            f"{_UNKNOWN}another process can't make the call, because the layout of an input is "
            "opaque and means something only in the process that it comes from"
        )
    # Once oneDNN has chosen its instructions, they can't be set any more; so they are not asked for
    # where no kernel is chosen.
    chosen = call["call"] not in ("add_op", "finalize")
    environment = {**quiet(), **(instructions() if chosen else {})}
    environment["ONEDNN_VERBOSE"] = "check,dispatch"
    with Isolated(environment=environment) as process:
        answer = process.call(made_again, call, timeout=timeout)
    if answer[0] != "returned":
        return _UNKNOWN + failure(answer, timeout, "the process that made the call again")
    said: str = answer[1][0]
    why: str = answer[1][1]
    if why:
        return _UNKNOWN + why
    error.answer = _shortened(said) or "oneDNN gives no reason"
    return error.answer


def with_reason(error: OneDNNError) -> str:
    """An error's message, with oneDNN's reason if it was oneDNN that refused."""
    reason = error.reason()
    if reason is None:
        return str(error)
    return f"{error}; oneDNN's reason: {'; '.join(reason.splitlines())}"


def _shortened(said: str) -> str:
    """The messages in oneDNN's lines; those on failed checks if there are any.

    Others say of each implementation why it was passed over.
    """
    lines = [m.groups() for m in map(_LINE.match, said.splitlines()) if m]
    checks = [text for kind, text in lines if kind != ":dispatch"]
    texts = checks or [text for _, text in lines if not text.startswith("pattern_matcher")]
    return "\n".join(dict.fromkeys(_PLACE.sub(r"\1 [\2]", text.strip()) for text in texts))


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
        for part in graph.get_partitions(policy):
            if set(part.get_ops()) == set(call["partition"]):
                yield partial(part.compile, call["inputs"], call["outputs"], engine)


def _op(
    number: int,
    kind: str,
    name: str,
    inputs: list[_core.logical_tensor],
    outputs: list[_core.logical_tensor],
    attrs: dict[str, Any],
) -> _core.op:
    new = _core.op(number, kind, inputs, outputs, name)
    for attribute, value in attrs.items():
        new.set_attr(attribute, value)
    return new

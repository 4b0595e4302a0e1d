"""Find out whether a graph can be compiled and run here; if not, only partition it.

oneDNN can partition a graph for a kind of engine without a device, but not compile it.
"""

from __future__ import annotations

from .. import engine, graph, version, version_t
from ..text.numbers import counted
from ._pipeline import fused_ops
from ._report import Skipped


def without_device(engine_kind: str) -> str | None:
    """Say why oneDNN can't compile for ``cpu`` or ``gpu`` here, or None if it can.

    Raises
    ------
    InvalidArgumentsError
        There is no such kind.
    """
    if engine.get_count(engine_kind):
        return None
    linked = version()
    release = f"oneDNN {version_t(linked).release}"
    runtime = linked[f"{engine_kind}_runtime"]
    if str(runtime).lower() == "none":
        return f"{release} is built without a {engine_kind.upper()} runtime"
    return f"{release} ({runtime} runtime) finds no {engine_kind.upper()} device"


def only_partitioned(name: str, net: graph, reason: str) -> Skipped:
    """Partition a finalized graph that can't run here, and report the partitions.

    Parameters
    ----------
    name : str
        The configuration's name.
    net : graph
        A graph for the kind of engine that is missing; a builder's is ``builder.graph``.
    reason : str
        The text that `without_device` returned.
    """
    parts = net.get_partitions()
    kind = net.get_engine_kind().name
    fused = fused_ops(net.get_ops(), parts)
    refused = sum(not part.is_supported() for part in parts)
    told = counted(len(parts), "partition")
    if refused:
        told += f", {refused} of them without a kernel"
    return Skipped(name, f"{reason}; partitioned for {kind}: {told}", fused)

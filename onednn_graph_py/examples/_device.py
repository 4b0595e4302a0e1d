"""Whether what an example builds can be compiled and run here, and what is shown if not.

oneDNN partitions a graph for a kind of engine without having one; to compile it takes a device.
"""

from __future__ import annotations

from .. import Version, engine, graph, version
from ..text.numbers import counted
from ._pipeline import fused_ops
from ._report import Skipped


def without_device(engine_kind: str) -> str | None:
    """Say why nothing can be compiled for ``cpu`` or ``gpu`` here, or None if it can.

    Raises
    ------
    InvalidArgumentsError
        There is no such kind.
    """
    if engine.get_count(engine_kind):
        return None
    linked = version()
    release = f"oneDNN {Version(linked).release}"
    runtime = linked[f"{engine_kind}_runtime"]
    if str(runtime).lower() == "none":
        return f"{release} is built without a {engine_kind.upper()} runtime"
    return f"{release} ({runtime} runtime) finds no {engine_kind.upper()} device"


def only_partitioned(name: str, net: graph, reason: str) -> Skipped:
    """Partition a finalized graph that can't run here, and tell how.

    Parameters
    ----------
    name : str
        Of the configuration.
    net : graph
        Made for the kind of engine that is missing; a builder's is ``builder.graph``.
    reason : str
        From `without_device`.
    """
    parts = net.get_partitions()
    kind = net.get_engine_kind().name
    fused = fused_ops(net.get_ops(), parts)
    refused = sum(not part.is_supported() for part in parts)
    told = counted(len(parts), "partition")
    if refused:
        told += f", {refused} of them without a kernel"
    return Skipped(name, f"{reason}; partitioned for {kind}: {told}", fused)

"""Skip configurations of an example that can't run here, and say why."""

from __future__ import annotations

from .. import graph
from ..linked import linked_version
from ..machine.cpu import lacks
from ._device import only_partitioned, without_device
from ._report import Skipped


def too_old(name: str, since: tuple[int, int]) -> Skipped | None:
    """Skip a configuration for a feature that the linked oneDNN does not have yet."""
    linked = linked_version()
    if linked >= since:
        return None
    wanted, have = (".".join(str(n) for n in release) for release in (since, linked))
    return Skipped(name, f"needs oneDNN >= {wanted}, linked is {have}")


def cannot_run(name: str, data_type: str, net: graph) -> Skipped | None:
    """Skip a configuration whose engine, or a CPU's support of its data type, is missing here.

    Parameters
    ----------
    name : str
        The configuration's name.
    data_type : str
    net : graph
        The graph, which is at least partitioned where there is no engine of its kind.

    Returns
    -------
    Skipped or None
        None if it can run.
    """
    engine_kind = net.get_engine_kind().name
    missing = without_device(engine_kind)
    if missing is not None:
        return only_partitioned(name, net, missing)
    reason = lacks(data_type) if engine_kind == "cpu" else None
    return None if reason is None else Skipped(name, reason)

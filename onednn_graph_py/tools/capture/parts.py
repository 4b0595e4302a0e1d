"""Search for dumped graphs that are parts of others, made when this package compiled a model.

A model partitions its graph once as a whole, and parts of it again: groups that run in parts, and
partitions that need another id. oneDNN dumps them all alike. We recognize parts by their ops, whose
ids no other graph of the process has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...base.errors import GraphFormatError
from ...model.building.value import FIRST_ID
from ...model.planning.partition_ids import FILLER
from ...serialization import OpRecord, parse

_Op = tuple[object, ...]


def _described(op: OpRecord) -> _Op:
    tensors = ((t.id, t.dtype, t.shape) for t in (*op.inputs, *op.outputs))
    return (op.id, op.kind, *tensors)


def _ops(file: Path) -> frozenset[_Op] | None:
    """Read the ops of a graph, but for End; None if it is not a graph of this package."""
    try:
        graph = [op for op in parse(file).graph if op.kind != "End"]
    except GraphFormatError:  # the program ended while oneDNN wrote the file
        return None
    if graph and all(op.name == FILLER for op in graph):
        return frozenset()
    if not graph or any(op.id < FIRST_ID for op in graph):
        return None
    return frozenset(_described(op) for op in graph)


def parts_among(files: Sequence[Path]) -> set[Path]:
    """Return the graphs whose ops are all in one graph that was written before.

    The files come in the order in which they were written, with or without partitions; the two
    kinds are not compared with each other.
    """
    found: set[Path] = set()
    # The graphs that contain an op, without those that are parts of an earlier one.
    wholes: dict[tuple[bool, _Op], list[frozenset[_Op]]] = {}
    for file in files:
        ops = _ops(file)
        if ops is None:
            continue
        partitioned = "-partitioning" in file.name
        one = next(iter(ops), None)
        if one is None or any(ops <= whole for whole in wholes.get((partitioned, one), ())):
            found.add(file)
            continue
        for op in ops:
            wholes.setdefault((partitioned, op), []).append(ops)
    return found

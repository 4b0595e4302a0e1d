"""Checks that the mirror makes, with the GIL held, before it passes something to oneDNN.

`limits` and `shapes` check the assumptions of every version of oneDNN. The rows of `table`, and
`partitioning`, describe uses with which a version crashes or accesses memory out of bounds
although all of these hold.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextvars import ContextVar
from typing import Any

from ..base.errors import InvalidGraphOpError, KnownDefectError, OneDNNError
from ..base.linked import linked_version
from ..machine import Conditions, current
from ..ops.inference import infer_outputs
from ..ops.lookup import row
from ..ops.tensor_spec import TensorSpec
from .calls import Op, Tensor, op_of
from .group import Group
from .limits import check_attributes, check_layouts, check_ranks
from .partitioning import CRASHING, partitioning_crash
from .shapes import shapes_of
from .table import refusal

__all__ = ["check_op", "check_partition", "check_partitioning", "may_crash_search"]

# The group that a model compiles, whose shapes are known to fit together.
PLANNED: ContextVar[Group | None] = ContextVar("PLANNED", default=None)


def _check_row(op: Op, name: str) -> None:
    inputs, outputs = (
        [TensorSpec(t.shape, t.dtype) for t in tensors] for tensors in (op.inputs, op.outputs)
    )
    infer_outputs(row(op.kind), inputs, op.attrs, outputs, name=name, id=op.id)


def check_op(values: tuple[Any, ...], name: str = "", validate: bool = False) -> None:
    """Check one op for what makes every oneDNN crash or access memory out of bounds.

    - `values`: the values of an `Op` without the schema
    - `name`: the op's name
    - `validate`: whether to check first that it fits its row, as `onednn_graph_py.ops.check` does
    - raises `InvalidGraphOpError`: an attribute is beyond its limits, the op depends on its own
      output, or it does not fit its row
    - raises `InvalidShapeError`: its shapes don't fit together, or elements of a tensor share
      memory
    - raises `TypeError`: an attribute is of the wrong type
    """
    op = op_of(values, linked_version())
    if validate:
        _check_row(op, name)
    try:
        check_attributes(op)
        check_layouts(op, {}, {})
        if not validate:
            shapes_of([op], {})
    except OneDNNError:
        _check_row(op, name)  # its words come first, as a builder says them
        raise
    if not validate:
        return
    check_ranks(op, {t.id: t.shape for t in (*op.inputs, *op.outputs)})
    read = {t.id for t in op.inputs}
    if any(t.id in read for t in op.outputs):
        raise InvalidGraphOpError(f"{op.label} depends on its own output")


def check_partition(
    ops: Sequence[tuple[Any, ...]],
    given: Sequence[tuple[Any, ...]],
    fpmath: str = "strict",
    threads: int = 0,
) -> None:
    """Check the ops of one partition before oneDNN compiles it for these tensors and threads.

    - `ops`: the values of an `Op` without the schema, for each op of one partition, in any order
    - `given`: the values of a `Tensor`, for each logical tensor that compile is given
    - `fpmath`: the graph's floating-point mode
    - `threads`: the number of threads that oneDNN compiles for; 0 for that of this process
    - raises `InvalidShapeError`: the shapes don't fit together, or elements of a tensor share
      memory
    - raises `KnownDefectError`: the partition is valid, but makes oneDNN crash or access memory out
      of bounds
    """
    conditions = current(threads or None)
    tensors = {values[0]: Tensor(*values) for values in given}
    planned = PLANNED.get()
    if planned is None:
        made = [op_of(values, conditions.version) for values in ops]
        shapes = shapes_of(made, tensors)
        group = Group([op for op in made if op.outputs], shapes, tensors, fpmath)  # all but End
    else:
        group, shapes = planned.compiled_for(tensors), {}
        made = [*planned.ops] if planned.features.strided else []
    for op in made:
        check_layouts(op, tensors, shapes)
    why = refusal(group, conditions)
    if why is not None:
        raise KnownDefectError(why)


def may_crash_search(kinds: Set[str]) -> bool:
    """Whether oneDNN may crash while it looks for fusions of ops of these kinds."""
    return kinds >= CRASHING


def check_partitioning(
    ops: Sequence[tuple[Any, ...]], conditions: Conditions | None = None
) -> None:
    """Check all ops of a graph, given as to `check_partition`, before oneDNN looks for fusions.

    - raises `KnownDefectError`: the graph is valid, but makes oneDNN crash
    """
    conditions = conditions or current()
    found = partitioning_crash([op_of(values, conditions.version) for values in ops])
    if found is not None:
        raise KnownDefectError(found)

"""Host steps: Python functions that run between partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES
from ...ops.tensor_spec import TensorSpec
from ..building.foreign import HostNode
from ..building.value import Value
from .plan import PlannedStep

Array = npt.NDArray[Any]


class _Call(NamedTuple):
    """A call of a function, with the shapes of its outputs."""

    node: HostNode
    made: tuple[TensorSpec, ...]


class _HostFunction:
    """Runs functions in order, over the arrays of a step's inputs and outputs.

    - `inputs`, `outputs`: the ids of the step's tensors, in the order in which it takes their
      arrays
    """

    def __init__(self, calls: Sequence[_Call], inputs: Sequence[int], outputs: Sequence[int]):
        self.calls = tuple(calls)
        self._ids = inputs, outputs
        node = calls[0].node
        self._is_one = (
            len(calls) == 1
            and [[v.id for v in side] for side in (node.inputs, node.outputs)] == [inputs, outputs]
            and not any(v.dtype in HOST_DTYPES for v in (*node.inputs, *node.outputs))
        )

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self._is_one:
            node, made = self.calls[0]
            node.run(inputs, outputs, made)
            return
        read, written = (
            dict(zip(ids, arrays, strict=True))
            for ids, arrays in zip(self._ids, (inputs, outputs), strict=True)
        )
        for i, array in written.items():
            read[i] = array.view()
            read[i].flags.writeable = False
        for node, made in self.calls:
            given = [_elements(read[v.id], v) for v in node.inputs]
            node.run(given, [_elements(written[v.id], v) for v in node.outputs], made)


def _elements(array: Array, value: Value) -> Array:
    """Return the elements in memory that is described in bytes if oneDNN lacks the data type."""
    dtype = HOST_DTYPES.get(value.dtype)
    if dtype is None:
        return array
    elements: Array = array.view(dtype)[..., 0]
    return elements


def host_step(
    node: HostNode,
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
) -> PlannedStep:
    """Make the step of one function.

    - `shapes`: the shapes of its tensors, by id
    """
    made = tuple(TensorSpec(shapes[v.id], v.dtype) for v in node.outputs)
    return _step([_Call(node, made)], inputs, outputs)


def joined(one: PlannedStep, other: PlannedStep) -> PlannedStep:
    """Make one step of two host steps that follow each other."""
    calls = [c for s in (one, other) for c in _calls(s)]
    made = {lt.get_id() for lt in one.outputs}
    inputs = [*one.inputs, *(lt for lt in other.inputs if lt.get_id() not in made)]
    return _step(calls, inputs, [*one.outputs, *other.outputs])


def _calls(step: PlannedStep) -> tuple[_Call, ...]:
    assert isinstance(step.function, _HostFunction)
    return step.function.calls


def _step(
    calls: Sequence[_Call],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
) -> PlannedStep:
    inputs = list({lt.get_id(): lt for lt in inputs}.values())
    ids = ([lt.get_id() for lt in side] for side in (inputs, outputs))
    function = _HostFunction(calls, *ids)
    nodes = tuple(c.node for c in calls)
    return PlannedStep(nodes, None, function, inputs, list(outputs))

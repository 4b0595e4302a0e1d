"""Host steps: Python functions that run between partitions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES
from ...ops.tensor_spec import TensorSpec
from ..building.foreign import HostNode, read_only
from ..building.value import Value
from .plan import PlannedStep

Array = npt.NDArray[Any]


_Call = tuple[HostNode, tuple[TensorSpec, ...]]
"""A call of a function, with the shapes of its outputs."""


class _HostFunction:
    """Runs functions in order, over the arrays of a step's inputs and outputs by id."""

    def __init__(self, calls: Sequence[_Call], inputs: Sequence[int], outputs: Sequence[int]):
        self.calls = tuple(calls)
        place = {id: i for i, id in enumerate((*inputs, *outputs))}

        def ports(values: Sequence[Value], first: int = 0) -> list[tuple[int, Any]]:
            return [(place[v.id] - first, HOST_DTYPES.get(v.dtype)) for v in values]

        self._runs = [
            (node.run, ports(node.inputs), ports(node.outputs, len(inputs)), made)
            for node, made in calls
        ]
        read = [i for _, ports_read, _, _ in self._runs for i, _ in ports_read]
        self._reads_results = max(read, default=-1) >= len(inputs)

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        known = [*inputs, *map(read_only, outputs)] if self._reads_results else inputs
        for run, reads, writes, made in self._runs:
            given = [_elements(known[i], dtype) for i, dtype in reads]
            run(given, [_elements(outputs[i], dtype) for i, dtype in writes], made)


def _elements(array: Array, dtype: np.dtype[Any] | None) -> Array:
    """Return a view of the elements, in bytes in memory if oneDNN lacks their data type."""
    return array.view() if dtype is None else array.view(dtype)[..., 0]


def host_step(
    node: HostNode,
    shapes: Mapping[int, tuple[int, ...]],
    inputs: Sequence[_core.logical_tensor],
    outputs: Sequence[_core.logical_tensor],
) -> PlannedStep:
    """Make the step of one function, for these shapes of its tensors by id."""
    made = tuple(TensorSpec(shapes[v.id], v.dtype) for v in node.outputs)
    return _step([(node, made)], inputs, outputs)


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
    nodes = tuple(node for node, _ in calls)
    return PlannedStep(nodes, None, function, inputs, list(outputs))

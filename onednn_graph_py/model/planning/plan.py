"""Plans: the steps that run a graph of known shapes, in order, with their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from ... import _core
from ..building.constant_arrays import lies_apart
from ..building.foreign import HostNode
from ..building.value import Node, Value

Implementation = Literal["oneDNN", "host", "reference", "view", "constant"]


class Slot(NamedTuple):
    """The place of a tensor."""

    where: str  # `input`, `output`, `constant` or `arena`
    at: int  # the number of the input, output or constant; or the bytes of the arena before it
    offset: int = 0  # the bytes of the input, output or constant before it

    def after(self, offset: int) -> Slot:
        """Return the place so many bytes further."""
        if self.where == "arena":
            return Slot(self.where, self.at + offset)
        return Slot(self.where, self.at, self.offset + offset)


Argument = tuple[str, int, _core.logical_tensor, int]
"""A tensor's place, its logical tensor, and the offset of the place."""


@dataclass
class PlannedStep:
    """A step of a plan: a partition, Python functions, or a view or constant, which do not run."""

    nodes: tuple[Node, ...]
    compiled: _core.compiled_partition | None
    # Runs host steps, or computes an op in NumPy for which oneDNN has no kernel; takes inputs and
    # outputs to fill.
    function: Callable[..., None] | None
    # As compiled, in the order of the call.
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]
    # The same by the names that its partition knows. Equal steps share a partition that was
    # compiled for the first of them, with its ids.
    as_compiled: tuple[list[_core.logical_tensor], list[_core.logical_tensor]] | None = None
    # The id of the input whose memory an output may take, by the output's id.
    in_place: Mapping[int, int] = field(default_factory=dict)
    scratchpad_bytes: int = 0
    scratchpad: int | None = None
    why: str = ""
    folded: bool = False
    verified: str = ""
    measured: str = ""

    @property
    def implementation(self) -> Implementation:
        """The step's implementation: ``oneDNN``, ``host``, ``reference``, ``view``, ``constant``.

        The last two do not run at a call. The readers of a ``view`` read its input's memory. A
        ``constant`` was computed once, at compile time, from constants.
        """
        if self.folded:
            return "constant"
        if self.compiled is not None:
            return "oneDNN"
        if self.function is None:
            return "view"
        return "host" if isinstance(self.nodes[0], HostNode) else "reference"

    @property
    def ports(self) -> tuple[list[_core.logical_tensor], list[_core.logical_tensor]]:
        """The inputs and outputs by the names that its partition knows, if it has one."""
        return self.as_compiled or (self.inputs, self.outputs)

    @property
    def runs(self) -> bool:
        """Whether a call executes the step."""
        return self.implementation not in ("view", "constant")

    @cached_property
    def read(self) -> list[int]:
        """The ids of the inputs."""
        return [lt.get_id() for lt in self.inputs]

    @cached_property
    def made(self) -> list[int]:
        """The ids of the outputs."""
        return [lt.get_id() for lt in self.outputs]

    @property
    def label(self) -> str:
        """The step's name in messages."""
        return " + ".join(node.name or node.kind for node in self.nodes)


def as_passed(lt: _core.logical_tensor, constant: npt.NDArray[Any]) -> _core.logical_tensor:
    """Return the logical tensor with which a step gets a constant.

    Nothing is known of the address of a caller's array. oneDNN leaves it out of its hash (see
    `partition_ids`) if the tensor is not a constant when it is passed. So what is compiled for one
    such array must not run with another.
    """
    if lies_apart(constant):
        return lt
    variable = _core.logical_tensor.property_type.variable
    return _core.logical_tensor(
        lt.get_id(), lt.get_data_type(), lt.get_dims(), lt.get_strides(), variable
    )


@dataclass
class Plan:
    """The steps, tensors and constants of a graph compiled for one set of shapes."""

    engine: _core.engine
    inputs: list[tuple[Value, _core.logical_tensor]]
    outputs: list[tuple[str, _core.logical_tensor]]
    output_dtypes: list[str]
    constants: list[npt.NDArray[Any]]
    steps: list[PlannedStep]
    slots: dict[int, Slot]
    arena_bytes: int = 0
    threads: int = 0

    @property
    def input_shapes(self) -> dict[int, tuple[int, ...]]:
        """The shapes of the inputs, by id."""
        return {v.id: v.dims_of(lt) for v, lt in self.inputs}

    @property
    def running(self) -> list[PlannedStep]:
        """The steps that a call executes."""
        return [step for step in self.steps if step.runs]

    def arguments(self, step: PlannedStep) -> tuple[list[Argument], list[Argument]]:
        """Return a step's inputs and outputs with their slots, as the executor takes them."""
        inputs, outputs = (
            [(*self.slots[i][:2], lt, self.slots[i].offset) for i, lt in zip(ids, lts, strict=True)]
            for ids, lts in zip((step.read, step.made), step.ports, strict=True)
        )
        return inputs, outputs

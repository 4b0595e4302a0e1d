"""What a graph becomes for one set of shapes: steps in order, with their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from .. import _core
from ..building.value import Node, Value

__all__ = ["Implementation", "Plan", "PlannedStep", "Slot"]

Implementation = Literal["oneDNN", "reference", "view", "constant"]

Slot = tuple[str, int]
"""Where a tensor is: in which input, output or constant, or ``("arena", byte)``."""


@dataclass
class PlannedStep:
    """What runs in one go, or need not run.

    Parameters
    ----------
    nodes : tuple of Node
    compiled : compiled_partition, optional
    function : callable, optional
        Computes in NumPy what oneDNN has no kernel for: takes inputs and outputs to fill.
    inputs, outputs : list of logical_tensor
        As compiled, in the order of the call.
    why : str
        Why its ops do not run together with others, or not as the graph says; empty otherwise.
    folded : bool
        It was computed when the model was compiled.
    verified : str
        The verdict on its partition; empty where none was asked for.
    """

    nodes: tuple[Node, ...]
    compiled: _core.compiled_partition | None
    function: Callable[..., None] | None
    inputs: list[_core.logical_tensor]
    outputs: list[_core.logical_tensor]
    scratchpad_bytes: int = 0
    scratchpad: int | None = None
    why: str = ""
    folded: bool = False
    verified: str = ""

    @property
    def implementation(self) -> Implementation:
        """Who computes it: ``oneDNN``, ``reference``, or nobody at a call.

        A ``view`` is a reshape or transpose that oneDNN has no kernel for, whose readers read its
        input's memory. A ``constant`` was computed once, at compile time, from constants.
        """
        if self.folded:
            return "constant"
        if self.compiled is not None:
            return "oneDNN"
        return "view" if self.function is None else "reference"

    @property
    def runs(self) -> bool:
        """Whether a call executes it."""
        return self.implementation in ("oneDNN", "reference")

    @property
    def label(self) -> str:
        """Names the step in messages."""
        return " + ".join(node.name or node.kind for node in self.nodes)


@dataclass
class Plan:
    """A graph for one set of shapes, ready to run."""

    engine: _core.engine
    inputs: list[tuple[Value, _core.logical_tensor]]
    outputs: list[tuple[str, _core.logical_tensor]]
    constants: list[npt.NDArray[Any]]
    steps: list[PlannedStep]
    slots: dict[int, Slot]
    arena_bytes: int = 0
    threads: int = 0

    @property
    def running(self) -> list[PlannedStep]:
        """The steps that a call executes."""
        return [step for step in self.steps if step.runs]

    def arguments(self, tensors: Sequence[_core.logical_tensor]) -> list[tuple[Any, ...]]:
        """As the executor takes them."""
        return [(*self.slots[lt.get_id()], lt) for lt in tensors]

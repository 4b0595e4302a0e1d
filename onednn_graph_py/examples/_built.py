"""Compile and run the graph of a `GraphBuilder`, and report on it as a `Case`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder
from ..checking.expected import Verification
from ..planning import KnownDefects
from ._expected import expected_of
from ._pipeline import median_milliseconds
from ._report import Case


class BuiltRun:
    """A built graph, compiled, and run once.

    Parameters
    ----------
    builder : GraphBuilder
    arrays : mapping of str to numpy.ndarray
        The inputs by name.
    known_defects : str
        The argument of `GraphBuilder.compile`.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        arrays: Mapping[str, npt.NDArray[Any]],
        known_defects: KnownDefects = "avoid",
    ) -> None:
        # An example shows oneDNN's fusions, also where its kernel for one is slow here.
        self._arrays = [arrays[v.name] for v in builder.inputs]
        self.model = builder.compile(known_defects=known_defects, slow_fusions="run")
        self._bound = self.model.bind(arrays)
        self._bound()

    def output(self, name: str) -> npt.NDArray[Any]:
        """Return an output, without a copy."""
        return np.asarray(self._bound.outputs[self.model.output_names.index(name)])

    def compared(self) -> dict[str, Verification]:
        """Compare each output with the reference, by a text that says what was compared."""
        builder = self.model.builder
        ids = {name: value.id for name, value in builder.outputs.items()}
        results = {i: self.output(name) for name, i in ids.items()}
        found = expected_of(builder, self._arrays, results).compare(results)
        if len(ids) == 1:
            return {"all elements with NumPy in float64": found}
        return {
            f"all elements of the {name} with NumPy in float64": Verification((check,))
            for name, check in zip(ids, found.outputs, strict=True)
        }

    def case(self, name: str, facts: Sequence[str] = ()) -> Case:
        """Time the model, and return a `Case` that reports on it."""
        return Case(
            name=name,
            expected_partitions=1,
            partitions=[list(step.ops) for step in self.model.steps()],
            comparisons=self.compared(),
            milliseconds=median_milliseconds(self._bound),
            facts=facts,
        )

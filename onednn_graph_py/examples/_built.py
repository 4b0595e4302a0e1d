"""From a graph that a `GraphBuilder` made to what an example tells of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import GraphBuilder
from ..planning import KnownDefects
from ._bounded import Comparison
from ._pipeline import median_milliseconds
from ._report import Case


class BuiltRun:
    """A built graph, compiled, and run once.

    Parameters
    ----------
    builder : GraphBuilder
    arrays : mapping of str to numpy.ndarray
        By the names of the inputs.
    known_defects : str
        As `GraphBuilder.compile` takes it.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        arrays: Mapping[str, npt.NDArray[Any]],
        known_defects: KnownDefects = "avoid",
    ) -> None:
        # An example shows what oneDNN fuses, also where its kernel for that is slow here.
        self.model = builder.compile(known_defects=known_defects, slow_fusions="run")
        self._bound = self.model.bind(arrays)
        self._bound()

    def output(self, name: str) -> npt.NDArray[Any]:
        """Look at an output, without a copy."""
        return np.asarray(self._bound.outputs[self.model.output_names.index(name)])

    def case(
        self,
        name: str,
        comparisons: Mapping[str, Comparison],
        expected_partitions: int = 1,
        facts: Sequence[str] = (),
    ) -> Case:
        """Time it, and tell how it went."""
        return Case(
            name=name,
            expected_partitions=expected_partitions,
            partitions=[list(step.ops) for step in self.model.steps()],
            comparisons=comparisons,
            milliseconds=median_milliseconds(self._bound),
            facts=facts,
        )

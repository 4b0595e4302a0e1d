"""From a builder's graph to arrays: compile, bind, run.

`_pipeline` is the same over the mirror of ``dnnl::graph``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..builder import GraphBuilder


class BoundModel:
    """A compiled graph of one output, with memory attached; call it to run.

    Parameters
    ----------
    builder : GraphBuilder
    inputs : mapping of str to numpy.ndarray
        By the input's name.
    """

    def __init__(self, builder: GraphBuilder, inputs: Mapping[str, npt.NDArray[Any]]) -> None:
        model = builder.compile()
        self.partitions = [list(step.ops) for step in model.steps()]
        self._bound = model.bind(inputs)

    def __call__(self) -> None:
        """Run all partitions and wait for the end."""
        self._bound()

    def output(self) -> npt.NDArray[Any]:
        """Look at the output, without a copy."""
        (output,) = self._bound.outputs
        return np.asarray(output)

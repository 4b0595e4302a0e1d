"""A model or an island between the inputs and outputs of a section: `Wiring`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Place: TypeAlias = int | npt.NDArray[Any]


class Wiring:
    """Computes a section's outputs for one set of dims.

    - `runner`: takes arrays, and returns one or a tuple; None if it has nothing to compute
    - `reads`: what it takes: an input of the section by its number, or what is known
    - `results`: the outputs: one of the runner's by its number, an input by its own, inverted (~),
      or what is known
    - `inputs`, `outputs`: how many the section and the runner have
    """

    def __init__(
        self,
        runner: Callable[..., Any] | None,
        reads: Sequence[Place],
        results: Sequence[Place],
        inputs: int,
        outputs: int,
    ) -> None:
        self.runner, self.inputs, self.outputs = runner, inputs, outputs
        self.reads, self.results = [*reads], [*results]
        taken = [r for r in results if isinstance(r, int) and r >= 0]
        self._repeated = len(set(taken)) < len(taken)  # outputs do not share memory
        straight = _all_in_order(reads, inputs) and _all_in_order(results, outputs)
        self.direct: Callable[..., Any] = self._call
        if runner is not None and straight:
            self.direct = runner

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Compute the outputs of what the section's inputs are."""
        made: Any = ()
        if self.runner is not None:
            made = self.runner(*[given[r] if isinstance(r, int) else r for r in self.reads])
            made = (made,) if self.outputs == 1 else made
        return [self._result(r, given, made) for r in self.results]

    def _call(self, *given: Any) -> Any:
        made = self(given)
        return made[0] if len(made) == 1 else tuple(made)

    def _result(self, place: Place, given: Sequence[Any], made: Sequence[Any]) -> Any:
        if isinstance(place, int) and place >= 0:
            return np.array(made[place]) if self._repeated else made[place]
        taken = given[~place] if isinstance(place, int) else place
        return np.array(taken) if isinstance(taken, np.ndarray) else taken  # a sequence


def _all_in_order(places: Sequence[Place], count: int) -> bool:
    whole = [p for p in places if isinstance(p, int)]
    return len(places) == count and whole == list(range(count))

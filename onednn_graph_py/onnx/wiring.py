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
    - `inputs`: how many the section has
    """

    def __init__(
        self,
        runner: Callable[..., Any] | None,
        reads: Sequence[Place],
        results: Sequence[Place],
        inputs: int,
    ) -> None:
        self.runner, self.inputs = runner, inputs
        self.reads, self.results = [*reads], [*results]
        taken = [r for r in results if isinstance(r, int) and r >= 0]
        self._repeated = len(set(taken)) < len(taken)  # outputs do not share memory
        # Something reads each of the runner's outputs.
        straight = _are_all(reads, inputs) and _are_all(results, len(results))
        self.direct = self._call if runner is None or not straight else runner

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Compute the outputs of what the section's inputs are."""
        made: Any = ()
        if self.runner is not None:
            made = self.runner(*[given[r] if isinstance(r, int) else r for r in self.reads])
            made = made if isinstance(made, tuple) else (made,)
        return [self._result(r, given, made) for r in self.results]

    def _call(self, *given: Any) -> Any:
        made = self(given)
        return made[0] if len(made) == 1 else tuple(made)

    def _result(self, place: Place, given: Sequence[Any], made: Sequence[Any]) -> Any:
        if isinstance(place, int) and place >= 0:
            return np.array(made[place]) if self._repeated else made[place]
        taken = given[~place] if isinstance(place, int) else place
        return np.array(taken) if isinstance(taken, np.ndarray) else taken  # a sequence


def _are_all(places: Sequence[Place], count: int) -> bool:
    return all(isinstance(p, int) for p in places) and [*places] == [*range(count)]

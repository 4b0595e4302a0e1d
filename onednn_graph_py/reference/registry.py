"""The functions that compute each op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import UnimplementedError

Array = npt.NDArray[Any]

Implementation = Callable[..., "Array | tuple[Array, ...]"]
"""A function that takes an ``ops.call.Call`` and the inputs, and returns the output or outputs.

Inputs and outputs are float64 for floating-point types, int64 for integers and bool for booleans.
The caller rounds outputs to their data types.
"""

_IMPLEMENTATIONS: dict[str, Implementation] = {}

_WITHOUT_MEANING = {
    "End": "it only marks where a graph ends",
    "Wildcard": "it stands for an op that oneDNN does not know",
}


def reference(*kinds: str) -> Callable[[Implementation], Implementation]:
    """Register the decorated function as the one that computes these op kinds."""

    def register(function: Implementation) -> Implementation:
        for kind in kinds:
            if kind in _IMPLEMENTATIONS:
                raise ValueError(f"{kind} has a reference already")
            _IMPLEMENTATIONS[kind] = function
        return function

    return register


def references(rows: Mapping[str, Implementation]) -> None:
    """Register the function of each op kind."""
    for kind, function in rows.items():
        reference(kind)(function)


def implementation(kind: str) -> Implementation:
    """Return the function that computes an op; UnimplementedError if there is none."""
    function = _IMPLEMENTATIONS.get(kind)
    if function is None:
        why = _WITHOUT_MEANING.get(kind, "it is not implemented yet")
        raise UnimplementedError(f"the reference does not compute {kind}: {why}")
    return function


def implemented() -> frozenset[str]:
    """Return the op kinds that the reference computes."""
    return frozenset(_IMPLEMENTATIONS)


def exact(values: npt.ArrayLike) -> Array:
    """Convert values to float64, int64 or bool, as implementations need them."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return array
    # ml_dtypes' int4 and uint4 have the kind V, so we look at their names.
    whole = array.dtype.kind in "iu" or array.dtype.name in ("int4", "uint4")
    return array.astype(np.int64 if whole else np.float64)

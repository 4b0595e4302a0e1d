"""Results of ops that read only constants, computed once for all shapes of a model."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any

import numpy.typing as npt

__all__ = ["FoldedConstants"]

Array = npt.NDArray[Any]


class FoldedConstants:
    """What a model computed from its constants.

    Results are known by what they were computed from, so that all shapes that a model is compiled
    for share them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrays: dict[Hashable, Array] = {}

    def get(self, keys: Sequence[Hashable]) -> list[Array] | None:
        """The arrays of these keys; None if one is missing."""
        with self._lock:
            found = [self._arrays[key] for key in keys if key in self._arrays]
        return found if len(found) == len(keys) else None

    def put(self, keys: Sequence[Hashable], arrays: Sequence[Array]) -> None:
        """Keep arrays by their keys."""
        with self._lock:
            self._arrays.update(zip(keys, arrays, strict=True))

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        with self._lock:
            return sum(a.nbytes for a in self._arrays.values())

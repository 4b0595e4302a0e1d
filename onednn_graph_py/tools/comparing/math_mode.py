"""A floating-point math mode of a comparison: `MathMode`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MathMode"]


class MathMode(NamedTuple):
    """A floating-point math mode; `apply_to_int` is None to keep the graph's own flag."""

    mode: str
    apply_to_int: bool | None = None

    def __str__(self) -> str:
        if self.apply_to_int is None:
            return self.mode
        return f"{self.mode}:{str(self.apply_to_int).lower()}"

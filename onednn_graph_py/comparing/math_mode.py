"""A floating-point math mode that graphs are compared in."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MathMode"]


@dataclass(frozen=True)
class MathMode:
    """A floating-point math mode.

    Parameters
    ----------
    mode : str
    apply_to_int : bool or None
        None for what the graph has.
    """

    mode: str
    apply_to_int: bool | None = None

    def __str__(self) -> str:
        if self.apply_to_int is None:
            return self.mode
        return f"{self.mode}:{str(self.apply_to_int).lower()}"

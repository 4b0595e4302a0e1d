"""Hints at names that were meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str], shown: Callable[[str], str] = repr) -> str:
    """``, did you mean 'MatMul'?`` for the end of a message; empty where no name is near."""
    near = get_close_matches(name, list(known), n=1)
    return f", did you mean {shown(near[0])}?" if near else ""

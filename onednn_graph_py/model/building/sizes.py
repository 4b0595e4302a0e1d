"""Numbers that only a call determines, as they follow from the shapes of arrays."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_SIGNS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "/": operator.truediv, "**": operator.pow,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "and": operator.and_, "or": operator.or_,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in _SIGNS.values()},
    **{f.__name__: f for f in (operator.neg, operator.not_, int, float, max, min)},
    **{f.__name__: f for f in (math.ceil, math.floor, math.sqrt)},
}
"""Functions that may compute a size, by their names."""


@dataclass(frozen=True)
class Slot:
    """The place of an array among a call's arguments."""

    index: int


@dataclass(frozen=True)
class Extent:
    """The size of a dim of the array at a place."""

    index: int
    dim: int


@dataclass(frozen=True)
class Size:
    """A number that is computed from sizes by a function of Python."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


def filled(given: Any, shapes: Sequence[Sequence[int]], arrays: Sequence[Any] = ()) -> Any:
    """Return an argument of a call for arrays of these shapes."""
    if isinstance(given, Slot):
        return arrays[given.index]
    if isinstance(given, Extent):
        return shapes[given.index][given.dim]
    if isinstance(given, Size):
        return given.function(*(filled(a, shapes, arrays) for a in given.args))
    if isinstance(given, (list, tuple)):
        whole = tuple if isinstance(given, tuple) else list
        return whole(filled(g, shapes, arrays) for g in given)
    return given


def text_of(given: Any, names: Sequence[str]) -> str:
    """Write a number of sizes as Python does, for arrays of these names."""
    if isinstance(given, Extent):
        return f"{names[given.index]}.shape[{given.dim}]"
    if not isinstance(given, Size):
        return str(given)
    args = [text_of(a, names) for a in given.args]
    sign = next((s for s, f in _SIGNS.items() if f is given.function), None)
    if sign is None:
        return f"{given.function.__name__}({', '.join(args)})"
    return f"({f' {sign} '.join(args)})"


def fulfils(shapes: Sequence[Sequence[int]], condition: Size) -> bool:
    """Return whether a condition holds for arrays of these shapes."""
    try:
        return bool(filled(condition, shapes))
    except ZeroDivisionError:
        return False

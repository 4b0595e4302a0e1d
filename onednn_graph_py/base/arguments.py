"""Checks of arguments, and `Options`, a dataclass that is checked."""

import contextlib
import operator
from collections.abc import Iterable
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import numpy as np

from .errors import InvalidArgumentsError
from .text.names import did_you_mean

FpmathMode = Literal["strict", "bf16", "f16", "tf32", "any"]


def need_whole(what: str, given: Any, least: int = 1) -> int:
    """Return a whole number of any integer type, or raise InvalidArgumentsError.

    - `what`: the name of the argument, after that of the function if it has no other context
    """
    with contextlib.suppress(TypeError):
        if not isinstance(given, bool) and operator.index(given) >= least:
            return operator.index(given)
    raise InvalidArgumentsError(f"{what} must be a whole number, at least {least}, got {given!r}")


def need_integers(what: str, given: Iterable[Any]) -> tuple[int, ...]:
    """Return integers, such as a shape, or raise TypeError."""
    with contextlib.suppress(TypeError):
        if not isinstance(given, (str, bytes)):
            return tuple(map(operator.index, given))
    raise TypeError(f"{what} must be a sequence of ints, got {given!r}")


def need_instance(what: str, given: Any, *classes: type) -> Any:
    """Return an argument; raise TypeError unless it is of one of the classes."""
    if not isinstance(given, classes):
        names = " or ".join(c.__name__ for c in classes)
        raise TypeError(f"{what} must be a {names}, got {type(given).__name__}")
    return given


def need_callable(what: str, given: object) -> None:
    """Raise TypeError unless an argument can be called."""
    if not callable(given):
        raise TypeError(f"{what} must be callable, got {type(given).__name__}")


def need_choice(what: str, given: Any, allowed: Iterable[Any]) -> Any:
    """Return the one of a few that an argument is, or raise InvalidArgumentsError."""
    allowed = list(allowed)
    for one in allowed:
        if given is one or (isinstance(given, (str, np.bool_)) and given == one):
            return one
    names, near = ", ".join(map(repr, allowed)), _near(given, allowed)
    raise InvalidArgumentsError(f"{what} must be one of {names}, got {given!r}{near}")


class Options:
    """The base of a dataclass whose values are of its annotations.

    These are words, bools, and whole numbers, which are 1 at least.
    """

    OWNER: ClassVar[str]
    """Who has the options, in messages."""

    PREFIX: ClassVar[str] = ""
    """The text before an option's name in messages."""

    def __post_init__(self) -> None:
        for name, hint in _types(type(self)).items():
            given, kinds = getattr(self, name), get_args(hint) or (hint,)
            if int not in kinds:
                allowed = (True, False) if bool in kinds else _words(hint)
                allowed += (None,) * (NoneType in kinds)
                given = need_choice(f"{self.PREFIX}{name}", given, allowed)
            elif given is not None or NoneType not in kinds:
                given = need_whole(f"{self.PREFIX}{name}", given)
            object.__setattr__(self, name, given)

    @classmethod
    def refuse(cls, unknown: Iterable[str]) -> None:
        """Raise `InvalidArgumentsError` for the first name that is no option."""
        names = list(_types(cls))
        for name in unknown:
            if name not in names:
                hint = _near(name, names) or f"; there are {', '.join(names)}"
                raise InvalidArgumentsError(f"{cls.OWNER} has no option {name!r}{hint}")


def _types(options: type[Options]) -> dict[str, Any]:
    hints = get_type_hints(options).items()
    return {name: hint for name, hint in hints if get_origin(hint) is not ClassVar}


def _words(hint: Any) -> tuple[Any, ...]:
    """Return the words of a Literal, or of those in a union."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for kind in get_args(hint) for word in _words(kind))


def _near(given: Any, known: Iterable[Any]) -> str:
    return did_you_mean(str(given), map(str, known)).replace(",", ";", 1)

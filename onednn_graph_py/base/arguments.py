"""Checks of arguments, and `Options`, a dataclass that is checked."""

import contextlib
import operator
from collections.abc import Iterable
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from .errors import InvalidArgumentsError
from .text.names import did_you_mean

FpmathMode = Literal["strict", "bf16", "f16", "tf32", "any"]


def need_whole(what: str, given: Any, least: int = 1) -> int:
    """Return a whole number of any integer type, or raise InvalidArgumentsError.

    - `what`: the name of the argument, after that of the function if it has no other context
    """
    try:
        if isinstance(given, bool) or operator.index(given) < least:
            raise TypeError
    except TypeError:
        raise InvalidArgumentsError(
            f"{what} must be a whole number, at least {least}, got {given!r}"
        ) from None
    return operator.index(given)


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


def need_choice(what: str, given: Any, allowed: Iterable[Any]) -> None:
    """Raise InvalidArgumentsError unless an argument is one of a few."""
    allowed = list(allowed)
    if not any(given is a or (isinstance(given, str) and given == a) for a in allowed):
        near = _near(given, allowed)
        names = ", ".join(map(repr, allowed))
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
            if given is None and NoneType in kinds:
                continue
            if int in kinds:
                need_whole(f"{self.PREFIX}{name}", given)
            else:
                allowed = (True, False) if bool in kinds else _words(hint)
                allowed += (None,) * (NoneType in kinds)
                need_choice(f"{self.PREFIX}{name}", given, allowed)

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

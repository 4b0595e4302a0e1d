"""Options that are checked: `Options`."""

from collections.abc import Iterable
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from ..base.errors import InvalidArgumentsError
from ..base.text.names import did_you_mean

FpmathMode = Literal["strict", "bf16", "f16", "tf32", "any"]


class Options:
    """The base of a dataclass whose values are of its annotations.

    These are words, bools, and whole numbers, which are 1 at least.
    """

    OWNER: ClassVar[str]
    """Who has the options, in messages."""

    PREFIX: ClassVar[str] = ""
    """The text before an option's name in messages."""

    def __post_init__(self) -> None:
        for name, hint in self._types().items():
            given, kinds = getattr(self, name), get_args(hint) or (hint,)
            if given is None and NoneType in kinds:
                continue
            if int in kinds:
                if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                    raise InvalidArgumentsError(
                        f"{self.PREFIX}{name} must be a whole number, at least 1, got {given!r}"
                    )
                continue
            allowed = (True, False) if bool in kinds else _words(hint)
            if given not in allowed:
                names = ", ".join(map(repr, allowed))
                raise InvalidArgumentsError(
                    f"{self.PREFIX}{name} must be one of {names}, got {given!r}"
                    f"{_near(given, allowed)}"
                )

    @classmethod
    def _types(cls) -> dict[str, Any]:
        hints = get_type_hints(cls).items()
        return {name: hint for name, hint in hints if get_origin(hint) is not ClassVar}

    @classmethod
    def refuse(cls, unknown: Iterable[str]) -> None:
        """Raise `InvalidArgumentsError` for the first name that is no option."""
        names = list(cls._types())
        for name in unknown:
            if name not in names:
                hint = _near(name, names) or f"; there are {', '.join(names)}"
                raise InvalidArgumentsError(f"{cls.OWNER} has no option {name!r}{hint}")


def _words(hint: Any) -> tuple[Any, ...]:
    """Return the words of a Literal, or of those in a union."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for kind in get_args(hint) for word in _words(kind))


def _near(given: Any, known: Iterable[Any]) -> str:
    return did_you_mean(str(given), map(str, known)).replace(",", ";", 1)

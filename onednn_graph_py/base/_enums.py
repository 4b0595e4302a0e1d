"""The base classes of the extension's enumerations."""

from __future__ import annotations

import enum
from typing import Any

from .errors import MissingNameError


class _Names(enum.EnumMeta):
    """Says of a name that the linked oneDNN lacks which version brings it."""

    def __getattr__(cls, name: str) -> Any:
        newer: dict[str, str] = cls.__dict__.get("_newer_", {})
        if name in newer:
            raise MissingNameError(newer[name])
        raise AttributeError(f"{cls.__qualname__} has no enumerator {name!r}")


class NamedEnum(enum.Enum, metaclass=_Names):
    """An enumeration whose members print as their oneDNN name; ``.value`` is oneDNN's number."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class OpenEnum(NamedEnum):
    """An enumeration to which newer versions of oneDNN add numbers that have no name here yet."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = object.__new__(cls)
        member._name_, member._value_ = f"unknown({value:#x})", value
        return cls._value2member_map_.setdefault(value, member)  # type: ignore[return-value]


class NamedFlag(enum.Flag, metaclass=_Names):
    """Flags that print as their oneDNN names; combine them with ``|``."""

    def __str__(self) -> str:
        """Return the name, or the names joined by ``|``."""
        if self.name is not None:
            return self.name
        return "|".join(flag.name or "" for flag in type(self) if flag in self)

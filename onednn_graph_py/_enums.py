"""The base class of the extension's enumerations."""

import enum


class NamedEnum(enum.Enum):
    """An enumeration whose members print as their oneDNN name; ``.value`` is oneDNN's number."""

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class NamedFlag(enum.Flag):
    """Flags that print as their oneDNN names; combine them with ``|``."""

    def __str__(self) -> str:
        """Return the name, or the names joined by ``|``."""
        if self.name is not None:
            return self.name
        return "|".join(flag.name or "" for flag in type(self) if flag in self)

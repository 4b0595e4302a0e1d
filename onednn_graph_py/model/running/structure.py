"""Results that are structures of values: dicts, named tuples, dataclasses, sequences."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..building.value import Value


def _parts(result: Any) -> list[tuple[str, Any]] | None:
    """Return the parts of a structure with their names, which are empty in plain sequences."""
    if isinstance(result, dict):
        return [(str(key), part) for key, part in result.items()]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return [(f.name, getattr(result, f.name)) for f in dataclasses.fields(result)]
    if isinstance(result, (tuple, list)):
        return list(zip(getattr(result, "_fields", [""] * len(result)), result, strict=True))
    return None


def named_values(result: Any, function: str, name: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the values of a structure with their names, such as ``cache/keys``."""
    parts = _parts(result)
    if isinstance(result, Value):
        yield name, result
    elif parts is None:
        raise TypeError(
            f"{function} must return a Value, a sequence or a dict of them, got "
            f"{type(result).__name__}"
        )
    else:
        for i, (key, part) in enumerate(parts):
            inner = f"{name}/{key or i}" if name else key
            yield from named_values(part, function, inner)


def rebuilt(result: Any, arrays: Iterator[Any]) -> Any:
    """Return a structure with arrays in the place of its leaves."""
    parts = _parts(result)
    if parts is None:
        return next(arrays)
    if isinstance(result, dict):
        return {key: rebuilt(part, arrays) for key, part in result.items()}
    filled = [rebuilt(part, arrays) for _, part in parts]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.replace(
            result, **{n: a for (n, _), a in zip(parts, filled, strict=True)}
        )
    return type(result)(*filled) if hasattr(result, "_fields") else type(result)(filled)

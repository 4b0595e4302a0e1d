"""Arguments of the examples: a kind of engine, sizes, and data types."""

from __future__ import annotations

from .. import graph
from ..errors import InvalidArgumentsError

# The data types in which oneDNN's examples run.
DATA_TYPES = ("f32", "bf16", "f16")


def check_arguments(example: str, engine_kind: str, **sizes: int) -> None:
    """Raise InvalidArgumentsError for an unknown kind of engine or a size that is not positive."""
    graph(engine_kind)  # raises an error that names the kinds
    for name, size in sizes.items():
        if size < 1:
            raise InvalidArgumentsError(f"{example}: {name} must be at least 1, got {size}")

"""The exceptions of this package, one for each kind of fault.

All derive from `OneDNNError`, which carries the oneDNN status as ``.status``; those about what
the caller passed are also ``ValueError``, and `OutOfMemoryError` is also ``MemoryError``. An
argument of the wrong Python type is a plain ``TypeError``.
"""

from ._core import (
    ExecutionError,
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidGraphError,
    InvalidGraphOpError,
    InvalidShapeError,
    OneDNNError,
    OutOfMemoryError,
    UnimplementedError,
)

__all__ = [
    "ExecutionError",
    "InvalidArgumentsError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidGraphOpError",
    "InvalidShapeError",
    "OneDNNError",
    "OutOfMemoryError",
    "UnimplementedError",
]

"""The exceptions of this package, one for each kind of fault.

All derive from `OneDNNError`, which carries the oneDNN status; those about what the caller passed
are also ``ValueError``, and `OutOfMemoryError` is also ``MemoryError``. An argument of the wrong
Python type is a plain ``TypeError``. The extension raises these classes, by status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._core import status as _status

__all__ = [
    "ExecutionError",
    "GraphFormatError",
    "InvalidArgumentsError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidGraphOpError",
    "InvalidShapeError",
    "KnownDefectError",
    "NoDeviceError",
    "OneDNNError",
    "OutOfMemoryError",
    "UnimplementedError",
]


class OneDNNError(RuntimeError):
    """Base of every error that oneDNN or this package reports."""

    status: _status | None = None
    """The oneDNN status behind the error, e.g. ``status.invalid_graph``."""


class InvalidArgumentsError(OneDNNError, ValueError):
    """An argument has a value that oneDNN can't take (status.invalid_arguments)."""


class InvalidShapeError(InvalidArgumentsError):
    """Shapes, strides or layouts don't fit together (status.invalid_shape)."""


class InvalidDataTypeError(InvalidArgumentsError):
    """A data type doesn't fit what it is used for (status.invalid_data_type)."""


class NoDeviceError(InvalidArgumentsError):
    """There is no device of the engine kind that is to be compiled for; see `devices`."""


class InvalidGraphError(OneDNNError, ValueError):
    """The graph as a whole is not valid (status.invalid_graph)."""


class InvalidGraphOpError(InvalidGraphError):
    """One op does not meet its schema (status.invalid_graph_op)."""


class GraphFormatError(InvalidGraphError):
    """A file or text is not the JSON of a graph; the message names the place in it."""


class UnimplementedError(OneDNNError):
    """oneDNN has no implementation for this here, or the linked version lacks the feature.

    Statuses unimplemented and last_impl_reached.
    """


class KnownDefectError(UnimplementedError):
    """The linked oneDNN would crash with this, or leave its buffers; the message says what helps.

    It is valid, and refused because of a defect that oneDNN is known to have.
    """


class OutOfMemoryError(OneDNNError, MemoryError):
    """Memory could not be allocated (status.out_of_memory)."""


class ExecutionError(OneDNNError):
    """The oneDNN runtime failed while it worked (status.runtime_error)."""

"""The exceptions of this package, one for each kind of fault.

All derive from `OneDNNError`, which carries the oneDNN status; those about what the caller passed
are also ``ValueError``, and `OutOfMemoryError` is also ``MemoryError``. An argument of the wrong
Python type is a plain ``TypeError``. The extension raises these classes, by status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from .._core import status as _status

__all__ = [
    "ExecutionError",
    "GraphFormatError",
    "InvalidArgumentsError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidGraphOpError",
    "InvalidIndexError",
    "InvalidShapeError",
    "KnownDefectError",
    "MissingNameError",
    "NoDeviceError",
    "OneDNNError",
    "OutOfMemoryError",
    "UnimplementedError",
    "escaped",
    "reworded",
]


def escaped(text: str, but: str) -> str:
    """See `text.names.printable`; it is here for what this file must not import."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in but else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


class OneDNNError(RuntimeError):
    """Base of every error that oneDNN or this package reports."""

    status: _status | None = None
    """The oneDNN status behind the error, e.g. ``status.invalid_graph``."""

    # The call that oneDNN refused, as plain values; None if this package refused it itself.
    refused: dict[str, Any] | None = None
    answer: str | None = None
    # `methods` sets it: a function of a later layer, which starts the other process.
    asker: ClassVar[Any]

    def __str__(self) -> str:
        """Return the message, in which names of files can't command a terminal."""
        return escaped(super().__str__(), "\n\t")

    def reason(self, *, timeout: float = 120.0) -> str | None:
        """Ask oneDNN why it refused what failed.

        oneDNN gives reasons only where ``ONEDNN_VERBOSE`` was set before it was first used. So
        another process with that variable repeats the call: it adds the same op, or compiles the
        same partition. That takes a second or so; the answer is kept with the error.

        Parameters
        ----------
        timeout : float
            Seconds after which the process is ended.

        Returns
        -------
        str or None
            oneDNN's own words, a line for each message, with the place in oneDNN's source. Where
            there are none, a sentence says so: oneDNN gives no reason, or the process took too
            long, crashed, or was not refused. None if oneDNN was not asked or can't be asked again,
            as when this package refused the call itself: then the message has the reason.

        Examples
        --------
        >>> import onednn_graph_py as og
        >>> x = og.logical_tensor(0, "f32", [4], "strided")
        >>> try:
        ...     og.graph("cpu").add_op(og.op(0, "ReLU", [x], [], "relu"))
        ... except og.InvalidGraphOpError as error:
        ...     print(error.reason())  # doctest: +ELLIPSIS
        add_op,ReLU,given num outputs 0 v.s. expected {1} [op_schema.cpp:...]
        """
        if self.refused is None or self.answer is not None:
            return self.answer
        answer: str = self.asker(timeout)
        return answer


class InvalidArgumentsError(OneDNNError, ValueError):
    """An argument has a value that oneDNN can't take (status.invalid_arguments)."""


class InvalidShapeError(InvalidArgumentsError):
    """Shapes, strides or layouts don't fit together (status.invalid_shape)."""


class InvalidDataTypeError(InvalidArgumentsError):
    """A data type doesn't fit what it is used for (status.invalid_data_type)."""


class InvalidIndexError(InvalidShapeError, IndexError):
    """An index is out of range, or there are more indices than dims."""


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


class MissingNameError(UnimplementedError, AttributeError):
    """An enumerator that the linked oneDNN lacks; the message names the version that brings it."""


class KnownDefectError(UnimplementedError):
    """The linked oneDNN would crash or access memory out of bounds; the message says what helps.

    It is valid, and refused because of a defect that oneDNN is known to have.
    """


class OutOfMemoryError(OneDNNError, MemoryError):
    """Memory could not be allocated (status.out_of_memory)."""


class ExecutionError(OneDNNError):
    """The oneDNN runtime failed while it worked (status.runtime_error)."""


# Tracebacks name an error as users catch it: onednn_graph_py.InvalidShapeError.
for _class in tuple(globals().values()):
    if isinstance(_class, type) and issubclass(_class, OneDNNError):
        _class.__module__ = __name__.partition(".")[0]

_Error = TypeVar("_Error", bound=Exception)


def reworded(error: _Error, message: str) -> _Error:
    """Make an error with another message, which knows what `OneDNNError.reason` needs."""
    other = type(error)(message)
    other.__dict__.update(error.__dict__)
    return other

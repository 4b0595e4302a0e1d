"""Check an op by its kind: `check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .attributes import spelling
from .inference import infer_outputs
from .lookup import row
from .table import OPS
from .tensor_spec import SpecLike, TensorSpec
from .terms import Version


def library_spelling(kind: str, name: str, value: str) -> str:
    """Return a string attribute in the library's spelling; an unknown string as it is given."""
    schema = OPS.get(kind)
    attribute = schema.attribute(name) if schema is not None else None
    return value if attribute is None else spelling(attribute, value)


def check(
    kind: str,
    inputs: Sequence[SpecLike],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[SpecLike] | None = None,
    *,
    name: str = "",
    id: int | None = None,
    version: Version | None = None,
) -> tuple[TensorSpec, ...]:
    """Check one op, and infer its outputs.

    Parameters
    ----------
    kind : str
        The op kind, such as ``Convolution``.
    inputs : sequence of TensorSpec, (shape, dtype), logical_tensor or array
        The inputs in the order of the op's ports. Unknown shapes and data types pass.
    attrs : mapping of str to value, optional
        The attributes that are set, in the documents' spelling or the library's.
    outputs : sequence like `inputs`, optional
        The outputs that the caller expects; without them `check` only infers the outputs.
    name, id
        Name and id of the op in messages.
    version : (int, int), optional
        The oneDNN to check for; the linked one by default.

    Returns
    -------
    tuple of TensorSpec
        The outputs, as far as they follow; None for a data type that the inputs leave open.

    Raises
    ------
    InvalidArgumentsError
        oneDNN has no such op kind.
    UnimplementedError
        The version does not have the op.
    InvalidGraphOpError
        The number of inputs or outputs, a data type or an attribute is wrong.
    InvalidShapeError
        The shapes don't fit together, or give other outputs than expected.
    TypeError
        An attribute is of the wrong type, or a tensor is given by an object of another type.

    Examples
    --------
    >>> check("MatMul", [((8, 64), "f32"), ((64, 10), "f32")])
    (TensorSpec(shape=(8, 10), dtype='f32'),)
    """
    return infer_outputs(row(kind), inputs, attrs, outputs, name=name, id=id, version=version)

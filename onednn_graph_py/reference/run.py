"""Run one op in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import InvalidArgumentsError, InvalidShapeError
from ..ops.call import Call
from ..ops.check import check
from ..ops.inference import make_call
from ..ops.lookup import row
from ..ops.terms import Shape, Version
from .registry import Array, exact, implementation
from .rounding import dtype_name, round_to


def _typed(kind: str, i: int, value: npt.ArrayLike, dtype: str | None) -> Array:
    if dtype is not None:
        return round_to(value, dtype)
    array = np.asarray(value)
    try:
        dtype_name(array.dtype)
    except InvalidArgumentsError as e:
        raise InvalidArgumentsError(f"{kind}: input {i}: {e}; give dtypes") from None
    return array


def call_of(
    kind: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any] | None = None,
    outputs: Sequence[tuple[Shape, str | None]] | None = None,
    *,
    version: Version | None = None,
) -> Call:
    """Make a checked `Call` whose inputs and outputs have all their shapes and data types.

    The parameters are those of `run`; inputs must have one of oneDNN's dtypes.

    Raises
    ------
    InvalidArgumentsError
        An output's shape or data type is not given, and can't be inferred from the inputs.
    OneDNNError
        The op is invalid; see `onednn_graph_py.ops.check`.
    """
    specs = [(a.shape, dtype_name(a.dtype)) for a in inputs]
    results = check(kind, specs, attrs, outputs, version=version)
    for i, spec in enumerate(results):
        if spec.shape is None or any(d < 0 for d in spec.shape) or spec.dtype is None:
            raise InvalidArgumentsError(
                f"{kind}: output {i} can't be inferred from inputs and attributes, only {spec}; "
                "give outputs"
            )
    return make_call(row(kind), specs, attrs, results, version=version)


def _stored(call: Call) -> dict[str, Any]:
    """Return attributes as oneDNN stores them: numbers are f32."""
    attrs = dict(call.attrs)
    for attribute in call.schema.attributes:
        value = call.attr(attribute.name)
        if value is not None and attribute.type == "f32":
            attrs[attribute.name] = float(np.float32(value))
        elif value is not None and attribute.type == "f32[]":
            attrs[attribute.name] = tuple(float(np.float32(v)) for v in value)
    return attrs


def evaluate(call: Call, inputs: Sequence[Array]) -> list[Array]:
    """Compute an op's results, before they are rounded to the outputs' data types.

    Parameters
    ----------
    call : Call
        The op, with all shapes and data types.
    inputs : sequence of numpy.ndarray
        Inputs of the call's shapes.

    Returns
    -------
    list of numpy.ndarray
        The outputs in their shapes, as float64, int64 or bool.

    Raises
    ------
    UnimplementedError
        The op has no reference.
    """
    stored = replace(call, attrs=_stored(call))
    with np.errstate(all="ignore"):  # infinities and NaN are valid, as in oneDNN
        values = implementation(call.kind)(stored, *(exact(a) for a in inputs))
    results = list(values) if isinstance(values, tuple) else [values]
    # An op may compute optional outputs that the call does not have.
    results = [np.asarray(r) for r in results[: len(call.outputs)]]
    for operand, result in zip(call.outputs, results, strict=True):
        if result.shape != operand.shape:
            raise InvalidShapeError(
                f"{call.label}: the reference made {operand.name} of shape {result.shape}, "
                f"expected {operand.shape}"
            )
    return results


def run(
    kind: str,
    inputs: Sequence[npt.ArrayLike],
    attrs: Mapping[str, Any] | None = None,
    *,
    outputs: Sequence[tuple[Shape, str | None]] | None = None,
    dtypes: Sequence[str | None] | None = None,
    version: Version | None = None,
) -> list[Array]:
    """Compute one op in NumPy, as oneDNN defines it.

    Sums are float64 and rounded once, so results are those of an exact implementation.

    Parameters
    ----------
    kind : str
        The op's kind, such as ``Convolution``.
    inputs : sequence of array_like
        Inputs in the ports' order; bf16, 8-bit floats and 4-bit integers as ml_dtypes' types.
    attrs : mapping of str to value, optional
        Attributes, spelled as in the documents or the library.
    outputs : sequence of (shape, dtype), optional
        Shapes and data types of the outputs; only needed if the inputs don't determine them, or for
        optional outputs. None for a shape or data type that is inferred.
    dtypes : sequence of str, optional
        Data types to round the inputs to first; None to keep an input's own.
    version : (int, int), optional
        The version of oneDNN whose definition to use; the linked one by default.

    Returns
    -------
    list of numpy.ndarray
        The outputs, rounded to their data types.

    Raises
    ------
    InvalidArgumentsError
        An output can't be inferred from the arguments, or oneDNN lacks an input's dtype.
    UnimplementedError
        The op has no reference, or that version lacks it.
    OneDNNError
        The op is invalid; see `onednn_graph_py.ops.check`.

    Examples
    --------
    >>> run("ReLU", [np.float32([-1, 0, 2])])
    [array([0., 0., 2.], dtype=float32)]
    """
    names = [None] * len(inputs) if dtypes is None else list(dtypes)
    if len(names) != len(inputs):
        raise InvalidArgumentsError(
            f"{kind}: dtypes must have {len(inputs)} entries, one an input, got {len(names)}"
        )
    arrays = [_typed(kind, i, v, n) for i, (v, n) in enumerate(zip(inputs, names, strict=True))]
    call = call_of(kind, arrays, attrs, outputs, version=version)
    results = evaluate(call, arrays)
    return [
        round_to(result, operand.dtype or "f32")
        for operand, result in zip(call.outputs, results, strict=True)
    ]

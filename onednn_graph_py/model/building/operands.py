"""Operands of NumPy functions: values, arrays and numbers, brought to one data type."""

import functools
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import NUMPY_NAMES, array_dtype, dtype_name
from ...base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidGraphOpError,
    OneDNNError,
)
from ...base.linked import linked_version
from ...ops.check import check
from ...ops.tensor_spec import TensorSpec
from .host_functions import FLOATS, NO_F64, host_step, leaves
from .value import Value, is_whole


def is_number(operand: Any) -> bool:
    """Whether an operand takes the data type of the value next to it."""
    if isinstance(operand, np.ndarray):
        return operand.ndim == 0 and operand.dtype.kind in "biuf"
    return isinstance(operand, (numbers.Real, np.generic))


def type_of(dtype: Any, b: Any) -> str:
    """Return the data type that NumPy's functions get; raise if oneDNN means another by it."""
    if type(dtype) is str and dtype in ("u4", "u8"):
        raise InvalidArgumentsError(
            f"{dtype!r} is {np.dtype(dtype)} for NumPy, and a smaller type for oneDNN; write "
            f"{str(np.dtype(dtype))!r} or 'uint{dtype[1:]}'"
        )
    name = dtype_name(dtype)
    return "f32" if name == "f64" and b.narrow else name


def result_type(*operands: Any) -> str:
    """Return NumPy's data type of a result; raise if no value has it, such as f64.

    Numbers, and lists of them, have none of their own; nor have arrays and values of integers next
    to a value of floating-point numbers, where NumPy would go to f64.
    """
    values = [v for v in operands if isinstance(v, Value)]
    is_complex = any(v.dtype == "c64" for v in values)
    floats = [v for v in values if v.dtype in FLOATS and not is_complex]
    dtypes = [array_dtype(v.dtype) for v in floats or values]
    weak = set()
    for operand in (v for v in operands if not isinstance(v, Value)):
        if any(isinstance(part, Value) for part in leaves(operand)):
            raise TypeError(f"one value is expected, got {operand!r}; norms take keep_stats=False")
        dtype = np.asarray(operand).dtype
        if dtype.kind in "cOSUMm":
            raise TypeError(f"a value, an array or a real number is expected, got {operand!r}")
        is_whole_scalar = isinstance(operand, np.generic) and dtype.kind in "iu" and not floats
        if not (isinstance(operand, np.ndarray) and operand.ndim) and not is_whole_scalar:
            weak.add(dtype.kind)
        elif not floats or dtype.kind not in "biu":
            dtypes.append(dtype)
    if "f" in weak and all(d.kind in "biu" for d in dtypes):
        dtypes.append(np.dtype(np.float64 if dtypes else np.float32))
    elif weak & set("iu") and all(d.kind == "b" for d in dtypes):
        dtypes.append(np.dtype(np.int64))
    dtype = functools.reduce(np.promote_types, dtypes or [np.dtype(np.bool_)])
    if dtype == np.float64 and values and values[0].builder.narrow:
        return "f32"
    name = NUMPY_NAMES.get(dtype.name)
    if name is None or name == "f64":
        raise InvalidDataTypeError(NO_F64.format(dtype.name))
    return name


def cast(value: Value, dtype: str) -> Value | None:
    """Return a value in another data type; None if no op converts it."""
    b = value.builder
    if value.dtype == dtype:
        return value
    if value.dtype in FLOATS and dtype in FLOATS:
        wide = value if "f32" in (value.dtype, dtype) else b.type_cast(value, dtype="f32")
        return b.type_cast(wide, dtype=dtype)
    if value.dtype in ("s8", "u8") and dtype == "f32":
        return b.dequantize(value, scales=[1.0], zps=[0])
    if value.dtype == "boolean" and dtype in FLOATS:
        one, zero = (b.constant(np.full((1,) * min(value.ndim, 1), n), dtype) for n in (1, 0))
        choice = selected(value, one, zero)
        return None if isinstance(choice, str) else choice
    return None


def in_type(value: Value, dtype: str) -> Value:
    """Return a value in another data type, by a host step where no op converts it."""
    result: Value | None = cast(value, dtype)
    return host_step("astype", (value, array_dtype(dtype)), {}) if result is None else result


def combined(kind: str, *arguments: Any) -> Value | None:
    """Add an op of operands, cast if needed; None if it does not compute in NumPy's data type."""
    dtype = result_type(*arguments)
    values = [v for v in arguments if isinstance(v, Value)]
    if dtype not in (("s32",) if kind == "GreaterEqual" else (*FLOATS, "s32")):  # NaN >= 0 is true
        return None
    operands = [
        v if isinstance(v, Value) or is_number(v) else np.asarray(v).astype(array_dtype(dtype))
        for v in (v.item() if isinstance(v, np.ndarray) and not v.ndim else v for v in arguments)
    ]
    specs = [
        TensorSpec(v.shape, v.dtype) if isinstance(v, Value) else TensorSpec(np.shape(v), dtype)
        for v in operands
    ]
    try:
        fits = check(kind, specs, {})[0].dtype in (dtype, "boolean")
    except (InvalidDataTypeError, InvalidGraphOpError):
        fits = False
    except OneDNNError:
        fits = True  # the op says it better
    if not fits and dtype == "s32":
        return None
    if not fits:
        operands = [in_type(v, dtype) if isinstance(v, Value) else v for v in operands]
    result: Value = values[0].builder.add_op(kind, operands, {})
    return result


def selected(condition: Value, x: Value, y: Value) -> Value | str:
    """Return elements of x where a condition is true, of y elsewhere, or why no op does so."""
    b, sizes = condition.builder, condition.shape or ()
    covers = _covers(sizes, x, y)
    if not is_whole((*sizes, *(x.shape or ()), *(y.shape or ()))):
        # Before 3.8 oneDNN multiplies by a condition that it widens: infinity becomes NaN.
        if not covers or (linked_version() < (3, 8) and sizes != x.shape):
            few = y.shape in ((), (1,))
            if few and x.shape in ((), (1,)):
                return "the condition has more elements than both tensors together"
            wide = host_step("broadcast_arrays", (condition, x, *[y] * (not few)), {})
            condition, x, y = (*wide, y)[:3]
    elif not covers:
        # oneDNN's Select widens no condition, but what it chooses from.
        if max(x.ndim, y.ndim) > len(sizes):
            return "the condition has more elements than both tensors together"
        if x.data is not None and x.data.size == 1:
            x = b.constant(np.full(sizes, x.data.item(), np.float32), x.dtype)
        else:
            x = x.expand(np.broadcast_shapes(x.shape or (), sizes))
    return b.select(condition, x, y)


def _covers(condition: Sequence[int], x: Value, y: Value) -> bool:
    """Return whether each dim of the condition is 1 or one of the two tensors'."""
    shapes = [x.shape or (), y.shape or ()]
    for i, size in enumerate(reversed(condition)):
        given = [s[-1 - i] for s in shapes if i < len(s)]
        if not given or (size != 1 and size not in given):
            return False
    return True

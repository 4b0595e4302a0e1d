"""A call's arrays by name, `by_name`, and converted to those that its plan needs: `Converter`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import _core
from ...base.dtypes import HOST_DTYPES, pack_int4
from ...base.errors import (
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidShapeError,
    OneDNNError,
)
from ...base.text.names import did_you_mean
from ...ops.terms import shape_text
from ..building.value import row_major
from ..planning import Plan


class Converter:
    """Copies arrays that a plan can't use, and counts it, or refuses them with the reason."""

    def __init__(self, name: str, plan: Plan, may_copy: bool, count: Callable[[], None]) -> None:
        self.name = name
        self.plan = plan
        self.may_copy = may_copy
        self.count = count

    def copied(self, what: str) -> None:
        """Count a copy that is about to be made, or raise if copies are forbidden."""
        if not self.may_copy:
            raise InvalidArgumentsError(
                f"{what} would have to be copied, and the model was compiled with copy=False"
            )
        self.count()

    def input(self, i: int, argument: Any) -> npt.NDArray[Any]:
        """Return input `i` as an array of the right data type, shape and strides."""
        value, lt = self.plan.inputs[i]
        what = f"{self.name}: input {value.name!r}"
        array = _as_array(argument, lt, self.plan.engine, what)
        form = _form_of(value.dtype, lt)
        if value.dtype in ("s4", "u4"):
            if array.dtype == np.uint8:
                raise InvalidShapeError(
                    f"{what}: packed {value.dtype} must be a flat contiguous uint8 array of "
                    f"{lt.get_mem_size()} bytes, got shape {array.shape}"
                )
            require_shape(what, array.shape, form.dims)
            self.copied(f"{what}: what is not packed")
            return pack_int4(_in_memory_order(array, lt, what), value.dtype)
        if array.dtype != form.dtype:
            raise InvalidDataTypeError(
                f"{what} must be {value.dtype} (NumPy's {form.dtype}), got {array.dtype}; convert "
                "it with astype"
            )
        require_shape(what, array.shape, form.dims)
        if value.updated and not array.flags.writeable:
            raise InvalidArgumentsError(f"{what} is read-only, and the model updates it")
        if form.fits(array):
            return array
        if value.updated:
            raise InvalidArgumentsError(
                f"{what} is updated, so it must be aligned and in row-major order, got strides "
                f"{array.strides} bytes"
            )
        self.copied(f"{what}: strides {array.strides} or alignment")
        return form.copy(array)

    def output(self, i: int, argument: Any) -> npt.NDArray[Any]:
        """Return the array to which output `i` is written."""
        (name, lt), dtype = self.plan.outputs[i], self.plan.output_dtypes[i]
        what = f"{self.name}: out {name!r}"
        array = _as_array(argument, lt, self.plan.engine, what)
        form = _form_of(dtype, lt)
        if array.dtype != form.dtype:
            raise InvalidDataTypeError(
                f"{what} must be {dtype} (NumPy's {form.dtype}), got {array.dtype}"
            )
        require_shape(what, array.shape, form.dims)
        if not array.flags.writeable:
            raise InvalidArgumentsError(f"{what} is read-only")
        if not form.fits(array):
            raise InvalidShapeError(
                f"{what} must be aligned and in row-major order, got strides {array.strides} bytes"
            )
        return array


class _Form(NamedTuple):
    """The form of an array whose memory is used as it is; strides in bytes."""

    dtype: np.dtype[Any]
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def fits(self, array: npt.NDArray[Any]) -> bool:
        if not array.flags.aligned:
            return False
        return array.size == 0 or all(
            n == 1 or have == want
            for n, have, want in zip(array.shape, array.strides, self.strides, strict=True)
        )

    def copy(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        last = sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True))
        size = self.dtype.itemsize
        memory = np.zeros(max(last // size + 1, 0), self.dtype)
        # NumPy's as_strided does not take float8_e5m2.
        whole: npt.NDArray[Any] = np.ndarray(self.dims, self.dtype, memory, strides=self.strides)
        whole[...] = array
        return whole


def _form_of(dtype: str, lt: _core.logical_tensor) -> _Form:
    dims = tuple(lt.get_dims())
    strides = tuple(lt.get_strides()) if dims else ()
    host = HOST_DTYPES.get(dtype)
    if host is not None:  # in bytes, with those of an element as the last dim
        return _Form(host, dims[:-1], strides[:-1])
    of = _core.numpy_dtype(dtype)
    return _Form(of, dims, tuple(s * of.itemsize for s in strides))


def require_shape(what: str, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Raise InvalidShapeError unless a shape is the wanted one."""
    if given != wanted:
        raise InvalidShapeError(
            f"{what} must have the shape {shape_text(wanted)}, got {shape_text(given)}"
        )


def _in_memory_order(
    array: npt.NDArray[Any], lt: _core.logical_tensor, what: str
) -> npt.NDArray[Any]:
    """Return an array with its dims in memory order, the one with the largest stride first."""
    dims, strides = lt.get_dims(), lt.get_strides() if array.ndim else []
    order = sorted(range(array.ndim), key=lambda i: (-strides[i], i))
    dense = row_major([dims[i] for i in order])
    fits = (dims[i] == 1 or strides[i] == s for i, s in zip(order, dense, strict=True))
    if 0 not in dims and not all(fits):
        raise InvalidShapeError(
            f"{what}: 4-bit integers must fill their memory without gaps, got strides "
            f"{list(strides)} for {shape_text(tuple(dims))}"
        )
    return array.transpose(order)


def _as_array(
    given: Any, lt: _core.logical_tensor, engine: _core.engine, what: str
) -> npt.NDArray[Any]:
    """Return a NumPy view of an array of any library."""
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, np.generic):
        return np.asarray(given)
    if not hasattr(given, "__dlpack__"):
        raise TypeError(
            f"{what} must be a NumPy array or support DLPack, got {type(given).__name__}"
        )
    if getattr(given, "is_neg", bool)():  # torch's DLPack leaves the sign out
        raise InvalidArgumentsError(
            f"{what} has torch's negative bit, which DLPack can't say; pass its resolve_neg()"
        )
    try:
        array: npt.NDArray[Any] = np.from_dlpack(given)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # NumPy's DLPack does not support bf16 and 8-bit floats; the mirror's does.
        try:
            if hasattr(given, "stride"):  # torch's
                own = list(given.shape), list(given.stride())
                lt = _core.logical_tensor(lt.get_id(), lt.get_data_type(), *own)
            array = _core.tensor(lt, engine, given).numpy()
        except OneDNNError:
            raise
        except (BufferError, RuntimeError, ValueError) as refused:
            raise InvalidArgumentsError(f"{what} can't be read by DLPack: {refused}") from refused
    if array.flags.owndata and array.size:  # NumPy takes new memory for the null address
        raise InvalidArgumentsError(
            f"{what} has no memory, as a FakeTensor or a tensor within torch.func.functionalize"
        )
    return array


def by_name(
    model: str,
    needed: Sequence[str],
    known: Collection[str],
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> dict[str, Any]:
    """Return inputs by name, of those given by position and by name; raise if they don't fit.

    - `needed`: the names of the inputs, in order, and `known` these and the optional ones
    """
    if len(positional) > len(needed):
        raise InvalidArgumentsError(
            f"{model}: expected {len(needed)} inputs ({', '.join(needed)}), got "
            f"{len(positional) + len(named)}"
        )
    made = dict(zip(needed, positional, strict=False))
    for name, value in named.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are: {', '.join(needed)}"
            raise InvalidArgumentsError(f"{model}: there is no input {name!r}{hint}")
        if name in made:
            raise InvalidArgumentsError(f"{model}: input {name!r} is given twice")
        made[name] = value
    missing = [n for n in needed if n not in made]
    if missing:
        raise InvalidArgumentsError(f"{model}: missing inputs: {', '.join(missing)}")
    return made

"""Arrays in SYCL's unified shared memory (USM): recognize them, and make a model's outputs."""

import enum
import importlib
import sys
from collections.abc import Iterable
from typing import Any

from ... import _core
from ...base import _dpctl

# If kinds of memory are mixed, the first one here wins, as in SYCL's array libraries.
_USM_TYPES = ("device", "shared", "host")

# Modules that have the class usm_ndarray: dpctl's up to 0.21, and dpnp's.
_USM_NDARRAY = ("dpnp.tensor", "dpctl.tensor")


class Family(enum.Enum):
    """The library whose arrays a model returns: that of its first input in USM memory."""

    TENSOR = "onednn_graph_py.tensor"
    USM_NDARRAY = "usm_ndarray"
    DPNP = "dpnp"

    def array(self, tensor: _core.tensor, memory: Any) -> Any:
        """Return the library's array over a tensor's memory (dpctl), or else the tensor itself."""
        lt = tensor.get_logical_tensor()
        cls = _usm_ndarray()
        if self is Family.TENSOR or cls is None:
            return tensor
        packed = lt.get_data_type().name in ("s4", "u4")
        dtype = "u1" if packed else _core.numpy_dtype(lt.get_data_type()).str
        shape = (lt.get_mem_size(),) if packed else tuple(lt.get_dims())
        if not packed and not hasattr(tensor, "__sycl_usm_array_interface__"):
            return tensor  # other libraries have no bf16 and 8-bit floats
        array = cls(shape, dtype=dtype, buffer=memory)
        return (
            array if self is Family.USM_NDARRAY else importlib.import_module("dpnp").asarray(array)
        )


def is_usm(given: object) -> bool:
    """Return whether an object is USM memory rather than host memory."""
    if isinstance(given, _core.tensor):
        return bool(_core._sycl.usm_kind(given))
    return hasattr(given, "__sycl_usm_array_interface__") or _dpctl.is_on_sycl_device(given)


def coerced_usm_type(types: Iterable[str | None]) -> str | None:
    """Return the kind of memory for results of inputs of these kinds; None if all are None."""
    given = set(types)
    return next((one for one in _USM_TYPES if one in given), None)


def family_of(given: object) -> Family:
    """Return the library of an array."""
    cls = _usm_ndarray()
    if cls is not None and isinstance(given, cls):
        return Family.USM_NDARRAY
    dpnp = sys.modules.get("dpnp")
    if dpnp is not None and isinstance(given, dpnp.ndarray):
        return Family.DPNP
    return Family.TENSOR


def _usm_ndarray() -> Any:
    for name in _USM_NDARRAY:
        if name in sys.modules:
            return sys.modules[name].usm_ndarray
    return None

"""Access to dpctl: convert its objects from and to addresses, and describe memory of SYCL.

dpctl is optional, and imported only when it is needed.
"""

import ctypes
import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core import _sycl
from .errors import InvalidArgumentsError, UnimplementedError
from .text.names import needs

# A capsule keeps a pointer to its name, so the names live as long as the module.
_CAPSULE_NAMES = {"SyclContext": b"SyclContextRef", "SyclQueue": b"SyclQueueRef",
                  "SyclEvent": b"SyclEventRef"}  # fmt: skip
# Values of dpctl's DPCTLSyclUSMType; 0 is unknown.
_USM_TYPES = {1: "device", 2: "shared", 3: "host"}

USM_MEMORY = {"shared": "MemoryUSMShared", "host": "MemoryUSMHost", "device": "MemoryUSMDevice"}
"""The classes of ``dpctl.memory``, by the kind of memory."""

# The dpctl that is known to share its SYCL runtime with oneDNN.
_loaded: tuple[Any, Any] | None = None

# DLPack's type of SYCL devices, which it calls oneAPI.
_DLPACK_SYCL = 14

_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def missing() -> str | None:
    """Return why SYCL objects can't be used here, or None if they can."""
    if not _sycl.available():
        return "not in this build: the linked oneDNN was built without SYCL"
    try:
        load("sycl_interop")
    except (ModuleNotFoundError, UnimplementedError) as error:
        return str(error)
    return None


def load(what: str) -> Any:
    """Import dpctl and check that it shares its SYCL runtime with oneDNN.

    - raises `UnimplementedError`: the linked oneDNN has no SYCL, or uses another SYCL runtime
    - raises `ModuleNotFoundError`: dpctl is not installed
    """
    global _loaded
    dpctl = sys.modules.get("dpctl")
    if dpctl is not None and _loaded == (dpctl, _sycl):
        return dpctl
    _sycl.require(what)
    dpctl = dpctl or _import(what)
    theirs = _sycl.runtime_of(_interface_library(dpctl))
    ours = _sycl.runtime()
    if theirs and ours and not Path(theirs).samefile(ours):
        raise UnimplementedError(
            f"{what}: oneDNN uses the SYCL runtime {ours} and dpctl {theirs}; objects of one mean "
            "nothing to the other, so that both must come from one environment"
        )
    _loaded = dpctl, _sycl
    return dpctl


def _import(what: str) -> Any:
    try:
        return importlib.import_module("dpctl")
    except ModuleNotFoundError as error:
        if error.name != "dpctl":
            raise
        raise needs(what, "dpctl", "sycl") from None


def address_of(value: object, kind: str, what: str) -> int:
    """Return the address of the C++ object of a dpctl object of class `kind`, or an int itself."""
    dpctl = sys.modules.get("dpctl")
    if dpctl is not None and isinstance(value, getattr(dpctl, kind)):
        load(what)
        address: int = value.addressof_ref()
        return address
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value < 2**63:
            raise InvalidArgumentsError(f"{what}: {value} is not an address")
        return int(value)
    raise TypeError(
        f"{what}: expected a dpctl.{kind} or the address of a sycl::{kind[4:].lower()}, "
        f"got {type(value).__module__}.{type(value).__qualname__}"
    )


def object_at(address: int, kind: str, what: str) -> Any:
    """Make a dpctl object of class `kind` from a C++ object, which it copies."""
    dpctl = load(what)
    if kind == "SyclDevice":
        capsule = dpctl._sycl_device.__pyx_capi__["SyclDevice_Make"]
        signature = b"struct PySyclDeviceObject *(DPCTLSyclDeviceRef)"
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
        return make(_capsule_pointer(capsule, signature))(address)
    return getattr(dpctl, kind)(_new_capsule(address, _CAPSULE_NAMES[kind], None))


def array_of(source: object, what: str) -> npt.NDArray[Any] | memoryview:
    """Describe an object with ``__sycl_usm_array_interface__`` to NumPy, without reading it.

    The result keeps the memory alive; a memoryview stands for raw memory.
    """
    interface = getattr(source, "__sycl_usm_array_interface__", None)
    if not isinstance(interface, dict):
        raise TypeError(
            f"{what}: expected memory of SYCL (__sycl_usm_array_interface__, as dpctl's and "
            f"dpnp's have), got {type(source).__module__}.{type(source).__qualname__}"
        )
    try:
        array = np.asarray(_ArrayInterface(source, interface))
    except (KeyError, TypeError, ValueError) as error:
        raise TypeError(f"{what}: malformed __sycl_usm_array_interface__: {error}") from None
    return array.data if array.dtype == np.uint8 and array.ndim == 1 else array


def require_usm(address: object, context: int, what: str) -> str:
    """Return ``shared``, ``host`` or ``device``, the kind of memory at an address in a context."""
    if not isinstance(address, (int, np.integer)) or isinstance(address, bool):
        raise TypeError(f"{what}: expected an int, got {type(address).__name__}")
    query = _pointer_type_query(_interface_library(load(what)))
    kind = query(int(address), context) if 0 < address < 2**63 else 0
    if kind not in _USM_TYPES:
        raise InvalidArgumentsError(
            f"{what} is not unified shared memory of the engine's context: {address}"
        )
    return _USM_TYPES[kind]


def is_on_sycl_device(source: object) -> bool:
    """Return whether an object is a DLPack producer with memory on a SYCL device."""
    device = getattr(source, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == _DLPACK_SYCL


def root_of(device: Any) -> Any:
    """Return the root device (dpctl) of a sub-device, or the device itself."""
    return device.get_unpartitioned_parent_device()


def dlpack_number(device: Any, context: Any) -> int:
    """Return DLPack's number of a device (dpctl), or -1: a sub-device, or another context."""
    dpctl = load("dlpack_number")
    if device.parent_device is not None or dpctl.SyclQueue(device).sycl_context != context:
        return -1
    return int(device.get_device_id())


def memory_at(address: int, nbytes: int, queue: Any) -> Any:
    """Return a dpctl memory object over USM memory, which the caller keeps alive."""
    return importlib.import_module("dpctl.memory").as_usm_memory(UsmBytes(address, nbytes, queue))


class UsmBytes:
    """Bytes of USM memory, with the interface of SYCL's arrays; they keep `owner` alive."""

    def __init__(self, address: int, nbytes: int, queue: Any, owner: object = None) -> None:
        self.owner = owner
        self.__sycl_usm_array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "strides": None,
            "offset": 0,
            "version": 1,
            "syclobj": queue,
        }


@functools.cache
def _pointer_type_query(library: str) -> Any:
    # dpctl's Python function for this ends the process if the address is not USM memory.
    query = ctypes.CDLL(library).DPCTLUSM_GetPointerType
    query.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    return query


def _interface_library(dpctl: Any) -> str:
    return str(Path(dpctl.__file__).parent / "libDPCTLSyclInterface.so")


class _ArrayInterface:
    """NumPy's description of an array, made from SYCL's; NumPy keeps it, and so its owner."""

    def __init__(self, owner: object, usm: dict[str, Any]) -> None:
        self.owner = owner
        # dpctl's memory objects claim that all memory is read-only, but it is not.
        always_writable = type(owner).__module__.startswith("dpctl.memory")
        item = np.dtype(usm["typestr"]).itemsize
        address, read_only = usm["data"]
        strides = usm.get("strides")
        self.__array_interface__ = {
            "version": 3,
            "typestr": usm["typestr"],
            "shape": tuple(usm["shape"]),
            # SYCL's strides count elements, NumPy's bytes.
            "strides": None if strides is None else tuple(item * stride for stride in strides),
            "data": (address + item * usm.get("offset", 0), read_only and not always_writable),
        }

"""Questions about devices, which `look` asks in a process that a driver may crash."""

import importlib
from dataclasses import replace

from ..._core import engine
from ...base import ocl_interop, sycl_interop
from .device import Device
from .facts import from_dpctl, from_pyopencl, host


def count(kind: str) -> tuple[int, str]:
    """Count the engines of a kind; return the runtime's error, too, if it has one."""
    try:
        return engine.get_count(kind), ""
    except Exception as e:  # the runtime's error
        return 0, str(e)


def described(kind: str, index: int, runtime: str) -> Device:
    """Return a device that oneDNN has an index for."""
    of_host = replace(host(runtime), index=index)
    plain = of_host if kind == "cpu" else Device(kind, index, runtime, "")
    try:
        made = engine(kind, index)
        if runtime == "SYCL" and sycl_interop.missing() is None:
            return from_dpctl(sycl_interop.get_device(made), index)
        if runtime == "OpenCL" and ocl_interop.missing() is None:
            pyopencl = importlib.import_module("pyopencl")
            device = pyopencl.Device.from_int_ptr(ocl_interop.get_device(made))
            return from_pyopencl(device, index)
    except ModuleNotFoundError:
        return plain
    except Exception as e:  # a driver may raise anything
        return replace(plain, engine=False, reason=str(e))
    return plain

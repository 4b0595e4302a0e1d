"""The process that looks for devices, and that a driver may crash; `look` starts it.

It prints a line of JSON for each step that begins and each device, to show what preceded a crash.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from ...base.processes import end_without_caller
from .device import Device

# The drivers of Level Zero for Intel's GPUs.
GPU_LIBRARIES = ("libze_loader.so.1", "libze_intel_gpu.so.1")


def _say(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def main() -> None:
    """Print the devices that are found."""
    end_without_caller(sys.stdout.fileno())
    from ..._core import engine, version

    runtimes = {k: str(version()[f"{k}_runtime"]) for k in ("cpu", "gpu")}
    found: list[Any] = []
    nameless = None
    for kind, runtime in runtimes.items():
        if runtime not in ("SYCL", "OpenCL"):
            continue
        _say(step=f"counting {kind} engines of {runtime}")
        try:
            count = engine.get_count(kind)
        except Exception as e:  # the runtime's error
            _say(kind=kind, failure=str(e))
            continue
        for index in range(count):
            _say(step=f"making {kind} engine {index}")
            described, theirs = _engine(kind, index, runtime)
            found.append(theirs)
            _say(device=asdict(described))
            if described.engine and not described.name:
                nameless = nameless or (kind, index)
    if "SYCL" in runtimes.values():
        for described in _others(found):
            _say(device=asdict(described))
    if runtimes["gpu"] == "SYCL":
        _say(step="loading Level Zero")
        for library in GPU_LIBRARIES:
            if _loads(library):
                _say(library=library)
    if nameless is not None:
        _say(step="asking oneDNN for names")
        _have_names_logged(*nameless)


def _engine(kind: str, index: int, runtime: str) -> tuple[Device, Any]:
    """Return a device that oneDNN has an index for, and the runtime's object of it."""
    from ..._core import engine
    from ...base import ocl_interop, sycl_interop
    from .facts import cpu_data_types, from_dpctl, from_pyopencl

    types = cpu_data_types() if kind == "cpu" else ()
    plain = Device(kind, index, runtime, "", data_types=types)
    try:
        made = engine(kind, index)
        if runtime == "SYCL" and sycl_interop.missing() is None:
            device = sycl_interop.get_device(made)
            return from_dpctl(device, index), device
        if runtime == "OpenCL" and ocl_interop.missing() is None:
            pyopencl = importlib.import_module("pyopencl")
            device = pyopencl.Device.from_int_ptr(ocl_interop.get_device(made))
            return from_pyopencl(device, index), device
    except ModuleNotFoundError:
        return plain, None
    except Exception as e:  # a driver may raise anything
        return replace(plain, engine=False, reason=str(e)), None
    return plain, None


def _others(found: list[Any]) -> Iterator[Device]:
    """Return the devices that dpctl shows and for which oneDNN has no index."""
    from ...base import sycl_interop
    from .facts import from_dpctl

    if sycl_interop.missing() is not None:
        return
    dpctl = importlib.import_module("dpctl")
    _say(step="asking dpctl")
    for device in dpctl.get_devices():
        if device in found:
            continue
        described = from_dpctl(device, None)
        _say(step=f"making an engine of {described.name}")
        if described.kind not in ("cpu", "gpu"):
            yield replace(described, engine=False, reason="oneDNN has engines of CPUs and GPUs")
            continue
        try:
            sycl_interop.make_engine(device, dpctl.SyclContext(device))
        except Exception as e:  # a driver may raise anything
            yield replace(described, engine=False, reason=str(e))
        else:
            why = "oneDNN's indices are for another backend's devices; use sycl_interop.make_engine"
            yield replace(described, reason=why)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _have_names_logged(kind: str, index: int) -> None:
    """Make oneDNN print the head of its log, which names all devices, by a compilation."""
    from ..._core import engine, logical_tensor, op, partition, set_verbose

    ports = [logical_tensor(i, "f32", [4], "strided") for i in range(2)]
    relu = partition(op(0, "ReLU", ports[:1], ports[1:], "relu"), kind)
    set_verbose(2)
    relu.compile(ports[:1], ports[1:], engine(kind, index))

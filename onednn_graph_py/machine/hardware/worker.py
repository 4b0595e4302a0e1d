"""The process that looks for devices, and that a driver may crash; `look` starts it.

It prints a line of JSON for each step that begins and each device, to show what preceded a crash.
"""

import importlib
import json
import sys
from dataclasses import asdict, replace
from typing import Any

from ...base.processes import end_without_caller
from .device import Device


def _say(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def main() -> None:
    """Print the devices that are found."""
    end_without_caller(sys.stdout.fileno())
    from ..._core import engine, version

    runtimes = {k: str(version()[f"{k}_runtime"]) for k in ("cpu", "gpu")}
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
            _say(device=asdict(_engine(kind, index, runtime)))


def _engine(kind: str, index: int, runtime: str) -> Device:
    """Return a device that oneDNN has an index for."""
    from ..._core import engine
    from ...base import ocl_interop, sycl_interop
    from .facts import from_dpctl, from_pyopencl, host

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

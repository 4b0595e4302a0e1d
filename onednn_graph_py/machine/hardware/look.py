"""Look for devices of SYCL and OpenCL, in another process, which a driver may crash."""

import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ... import _core
from ..._core import engine
from ...base import sycl_interop
from ...base.processes import Isolated, failure, quiet
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
        own = engine(kind, index)
        if runtime == "SYCL" and sycl_interop.missing() is None:
            return from_dpctl(sycl_interop.get_device(own), index)
        if runtime == "OpenCL":
            pyopencl = importlib.import_module("pyopencl")
            device = pyopencl.Device.from_int_ptr(_core._ocl.get_device(own))
            return from_pyopencl(device, index)
    except ModuleNotFoundError:
        return plain
    except Exception as e:  # a driver may raise anything
        return replace(plain, engine=False, reason=str(e))
    return plain


# Runtimes that list devices; the others have only the CPU that Python runs on.
WITH_DEVICES = ("SYCL", "OpenCL")
# The time limit for each step of a driver, in seconds.
_PATIENCE = 60
# The variables by which SYCL, OpenCL and their loaders choose devices.
_CHOOSING = re.compile(r"ONEAPI_|OCL_ICD_|SYCL_|ZE_|UR_|CL_CONFIG_|LD_LIBRARY_PATH|LD_PRELOAD")


@dataclass(frozen=True)
class Failure:
    """A failure of the search: a crash, a hang, or an exception of the runtime."""

    # the kind of device that the failure prevents from being found; empty for all kinds left
    kind: str
    text: str


@dataclass(frozen=True)
class Seen:
    """The results of the search."""

    devices: tuple[Device, ...] = ()
    failures: tuple[Failure, ...] = ()


def seen() -> Seen:
    """Look for devices, or return the earlier results for the same settings."""
    settings = tuple(sorted((k, v) for k, v in os.environ.items() if _CHOOSING.match(k)))
    return _seen(settings)


@lru_cache(maxsize=4)
def _seen(settings: tuple[tuple[str, str], ...]) -> Seen:
    version = _core.version()
    return looked({kind: str(version[f"{kind}_runtime"]) for kind in ("cpu", "gpu")})


class _Ended(Exception):
    """Raised with the step that a driver did not survive, and how it ended."""


def looked(runtimes: Mapping[str, str]) -> Seen:
    """Look for the devices of each kind by its runtime, until a driver crashes or hangs."""
    devices: list[Device] = []
    failures: list[Failure] = []

    def ask(step: str, function: Callable[..., Any], *arguments: Any) -> Any:
        answer = process.call(function, *arguments, timeout=_PATIENCE)
        if answer[0] != "returned":
            raise _Ended(f"{step}: {failure(answer, _PATIENCE, 'the process')}")
        return answer[1]

    with Isolated(environment=quiet()) as process:
        try:
            for kind, runtime in runtimes.items():
                if runtime not in WITH_DEVICES:
                    continue
                step = f"counting {kind} engines of {runtime}"
                number, error = ask(step, count, kind)
                failures += [Failure(kind, f"{step}: {error}")] if error else []
                for index in range(number):
                    step = f"making {kind} engine {index}"
                    devices.append(ask(step, described, kind, index, runtime))
        except _Ended as e:
            failures.append(Failure("", str(e)))
    return Seen(tuple(devices), tuple(failures))

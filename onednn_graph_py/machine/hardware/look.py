"""Look for devices of SYCL and OpenCL, in another process, which a driver may crash."""

import json
import os
import re
from dataclasses import dataclass
from functools import lru_cache

from ...base.processes import calling, quiet, run
from .device import Device

_WORKER = f"{__package__}.worker"
# The time limit for drivers, in seconds.
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
    return _read(*run(*calling(_WORKER), timeout=_PATIENCE, environment=quiet()))


def _read(out: str, failure: str) -> Seen:
    """Parse the process's output, with the reason if it failed."""
    devices: list[Device] = []
    failures: list[Failure] = []
    step = "starting"
    for line in out.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a driver's own output
        if not isinstance(record, dict):
            continue
        step = record.get("step", step)
        if "device" in record:
            d = record["device"]
            lists = {k: tuple(v) for k, v in d.items() if isinstance(v, list)}
            devices.append(Device(**{**d, **lists}))
        if "failure" in record:
            failures.append(Failure(record["kind"], f"{step}: {record['failure']}"))
    if failure:
        failures.append(Failure("", f"{step}: {failure}"))
    return Seen(tuple(devices), tuple(failures))

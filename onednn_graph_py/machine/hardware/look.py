"""Look for devices of SYCL and OpenCL, in another process, which a driver may crash."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from ...base.processes import calling, quiet, run
from .device import Device

_WORKER = f"{__package__}.worker"
# The time limit for drivers, in seconds.
_PATIENCE = 60
# The variables by which SYCL, OpenCL and their loaders choose devices.
_CHOOSING = re.compile(r"ONEAPI_|OCL_ICD_|SYCL_|ZE_|UR_|CL_CONFIG_|LD_LIBRARY_PATH|LD_PRELOAD")
_ENGINE_LINE = re.compile(
    r"onednn_verbose,v1,info,(cpu|gpu),engine,(\d+),(?:backend:([^,]*),)?name:(.*),"
    r"driver_version:([^,\s]*)"
)


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
    libraries: tuple[str, ...] = ()  # the libraries of Level Zero that can be loaded


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
    libraries: list[str] = []
    names: dict[tuple[str, int], tuple[str, str, str]] = {}
    step = "starting"
    for line in out.splitlines():
        told = _ENGINE_LINE.match(line)
        if told is not None:
            kind, number, backend, name, driver = told.groups()
            names[kind, int(number)] = (name.strip(), (backend or "").lower(), driver)
            continue
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
        libraries += [record["library"]] if "library" in record else []
    if failure:
        failures.append(Failure("", f"{step}: {failure}"))
    named = []
    for d in devices:
        if not d.name and d.index is not None and (d.kind, d.index) in names:
            name, backend, driver = names[d.kind, d.index]
            d = replace(d, name=name, backend=backend.replace(" ", "_"), driver=driver)
        named.append(d)
    return Seen(tuple(named), tuple(failures), tuple(libraries))

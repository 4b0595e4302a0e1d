"""A look for devices of SYCL and OpenCL, in a process of its own, which a driver may crash."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import lru_cache

from .device import Device

__all__ = ["Failure", "Seen", "seen"]

# Seconds after which a driver that hangs is given up.
_PATIENCE = 60
# What SYCL, OpenCL and their loaders choose devices by.
_CHOOSING = re.compile(r"ONEAPI_|OCL_ICD_|SYCL_|ZE_|UR_|CL_CONFIG_|LD_LIBRARY_PATH|LD_PRELOAD")
_ENGINE_LINE = re.compile(
    r"onednn_verbose,v1,info,(cpu|gpu),engine,(\d+),(?:backend:([^,]*),)?name:(.*),"
    r"driver_version:([^,\s]*)"
)


@dataclass(frozen=True)
class Failure:
    """A failure of a search: a crash, a hang, an exception of the runtime.

    Parameters
    ----------
    kind : str
        The kind of device that was not found therefore; empty for all that were left.
    text : str
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Seen:
    """The results of a search.

    Parameters
    ----------
    devices : tuple of Device
    failures : tuple of Failure
    libraries : tuple of str
        Those of Level Zero that can be loaded.
    """

    devices: tuple[Device, ...] = ()
    failures: tuple[Failure, ...] = ()
    libraries: tuple[str, ...] = ()


def seen() -> Seen:
    """Look for devices, or tell what was found before with the same settings."""
    settings = tuple(sorted((k, v) for k, v in os.environ.items() if _CHOOSING.match(k)))
    return _seen(settings)


@lru_cache(maxsize=4)
def _seen(settings: tuple[tuple[str, str], ...]) -> Seen:
    # The package as it is found here, however that may be.
    program = (
        "import sys; sys.path[:] = sys.argv[1:]; "
        "from onednn_graph_py.hardware.worker import main; main()"
    )
    command = [sys.executable, "-c", program, *sys.path]
    environment = {**os.environ, "ONEDNN_VERBOSE": "0"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
        out, said, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as e:
        out, said, status = _text(e.stdout), _text(e.stderr), None
    except OSError as e:
        return Seen(
            failures=(Failure("", f"no process to look for devices could be started: {e}"),)
        )
    return _read(out, said, status)


def _text(output: bytes | str | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _read(out: str, said: str, status: int | None) -> Seen:
    """Make sense of what the process printed, and of how it ended; `status` None: it hung."""
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
        except ValueError:
            continue  # a driver's own words
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
    if status is None:
        failures.append(Failure("", f"{step}: no answer within {_PATIENCE} s"))
    elif status:
        how = f"status {status}"
        if status < 0:
            how = f"signal {signal.Signals(-status).name}"
        words = said.strip().splitlines()
        text = f"{step}: the process ended with {how}" + (f": {words[-1]}" if words else "")
        failures.append(Failure("", text))
    named = []
    for d in devices:
        if not d.name and d.index is not None and (d.kind, d.index) in names:
            name, backend, driver = names[d.kind, d.index]
            d = replace(d, name=name, backend=backend.replace(" ", "_"), driver=driver)
        named.append(d)
    return Seen(tuple(named), tuple(failures), tuple(libraries))

"""List all devices of the linked oneDNN, and raise if a needed one is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from ... import _core
from ...base import sycl_interop
from ...base.errors import NoDeviceError
from ...base.loading import opencl_drivers as drivers
from .device import Device, Devices, Missing
from .facts import host
from .look import WITH_DEVICES, Seen, seen
from .reasons import no_cpu, no_gpu, no_package


def devices() -> Devices:
    """List the devices that oneDNN can run on here, and the reasons why others are missing.

    A helper process looks for devices of SYCL and OpenCL, if the linked oneDNN has these runtimes,
    so that a driver that crashes does no harm. It does so once for each setting of their
    environment variables.

    Returns
    -------
    Devices
        It prints as text. ``missing`` lists missing devices and packages, with reasons and
        remedies.
    """
    linked = _core.version()
    runtimes = {kind: str(linked[f"{kind}_runtime"]) for kind in ("cpu", "gpu")}
    look = seen() if any(r in WITH_DEVICES for r in runtimes.values()) else Seen()
    # If the search ended early, this process must not repeat what ended it.
    ended = next((f.text for f in look.failures if not f.kind), None)
    usable = [
        _as_here(d) if ended is None else replace(d, engine=False, reason=ended)
        for d in look.devices
    ]
    if runtimes["cpu"] not in (*WITH_DEVICES, "none"):
        usable.insert(0, host(runtimes["cpu"]))
    missing = []
    if not any(d.kind == "cpu" for d in usable):
        missing.append(no_cpu(runtimes["cpu"], look.failures))
    if not any(d.kind == "gpu" for d in usable):
        missing.append(no_gpu(linked, look.failures))
    missing += _packages(runtimes)
    reasons = {m.reason for m in missing}
    notes = [
        failure.text for failure in look.failures if not any(failure.text in t for t in reasons)
    ]
    provided = drivers.provided()
    if provided is not None:
        notes.append(f"importing onednn_graph_py has set {drivers.VARIABLE} to {provided}")
    return Devices(usable, missing, linked, notes)


def _count(kind: Any) -> int:
    """Count the engines of a kind that oneDNN has in this process; 0 if its runtime fails."""
    try:
        return _core.engine.get_count(kind)
    except RuntimeError:  # the SYCL runtime's, such as about a malformed selector
        return 0


def _as_here(device: Device) -> Device:
    """Return the device as this process sees it, whose runtime may have had other settings."""
    if not device.engine or device.index < _count(device.kind):
        return device
    return replace(
        device,
        engine=False,
        reason="new processes show it and this one does not: its runtime looked for devices before "
        f"{drivers.VARIABLE} or another of its settings had this value, or another package loaded "
        "an older TBB",
    )


def _packages(runtimes: Mapping[str, str]) -> list[Missing]:
    """Return the missing packages without which little is known of GPUs."""
    missing = []
    if "SYCL" in runtimes.values():
        try:
            why = sycl_interop.missing()
        except ImportError as e:  # dpctl is installed but broken
            why = str(e)
        if why is not None:
            missing.append(no_package("dpctl", why, "sycl"))
    if "OpenCL" in runtimes.values() and find_spec("pyopencl") is None:
        missing.append(no_package("pyopencl", "pyopencl is not installed", "ocl"))
    return missing


def require(kind: _core.engine.kind) -> None:
    """Raise unless there is a device of a kind.

    - raises `NoDeviceError`: there is none; it says why, which devices there are, and what to do
    """
    if _count(kind):
        return
    known = devices()
    why = next((m for m in known.missing if m.what == kind.name), None)
    if why is None:
        reason = next((d.reason for d in known[kind.name] if d.reason), "oneDNN counts none")
        remedy = "import onednn_graph_py before dpctl is used, and before openvino"
        why = Missing(kind.name, reason, remedy)
    there = "; ".join(f"{d.label}: {d.name} ({d.runtime})" for d in known if d.engine) or "none"
    raise NoDeviceError(
        f"engine kind {kind.name}: no device to compile for and run on: {why.reason.rstrip('.')}. "
        f"Devices here: {there}. To do: {why.remedy}. Building, partitioning and diagrams need no "
        "device"
    )

"""Facts about a device, from dpctl, from pyopencl, or about the CPU that Python runs on."""

import os
from typing import Any

from ... import _core
from ..cpu import lacks
from ..store import processor
from .device import Device

# oneDNN's documents promise these on every GPU, whatever its driver reports.
_EVERY_GPU = ("f32", "s32", "s8", "u8")


def cpu_data_types() -> tuple[str, ...]:
    """Return the data types that oneDNN uses on this CPU, with any runtime."""
    every = _core.logical_tensor.data_type.__members__
    return tuple(name for name in every if name != "undef" and lacks(name) is None)


def host(runtime: str) -> Device:
    """Return the CPU that Python runs on, for a runtime that lists no devices."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        memory = None
    return Device("cpu", 0, runtime, processor(), memory_bytes=memory, data_types=cpu_data_types())


def from_dpctl(device: Any, index: int) -> Device:
    """Describe a ``dpctl.SyclDevice``."""
    kind = device.device_type.name
    prefix = "has_aspect_"
    aspects = tuple(
        name[len(prefix) :]
        for name in sorted(dir(device))
        if name.startswith(prefix) and getattr(device, name)
    )
    return Device(
        kind,
        index,
        "SYCL",
        device.name.strip(),
        backend=device.backend.name,
        vendor=device.vendor,
        driver=device.driver_version,
        memory_bytes=device.global_mem_size,
        data_types=_data_types(kind, half="fp16" in aspects),
        aspects=aspects,
    )


def from_pyopencl(device: Any, index: int) -> Device:
    """Describe a ``pyopencl.Device`` of a GPU."""
    extensions = device.extensions.split()
    aspects = {"fp16": "cl_khr_fp16", "fp64": "cl_khr_fp64"}
    return Device(
        "gpu",
        index,
        "OpenCL",
        device.name.strip(),
        vendor=device.vendor.strip(),
        driver=device.driver_version,
        memory_bytes=device.global_mem_size,
        data_types=_data_types("gpu", half="cl_khr_fp16" in extensions),
        aspects=tuple(name for name, needed in aspects.items() if needed in extensions),
    )


def _data_types(kind: str, *, half: bool) -> tuple[str, ...]:
    if kind == "cpu":
        return cpu_data_types()
    return (*_EVERY_GPU, "f16") if half else _EVERY_GPU

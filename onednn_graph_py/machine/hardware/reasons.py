"""Reasons why a kind of device is missing, and remedies."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.linked import version_t
from ...base.loading import opencl_drivers as drivers
from ...base.text.names import install_line
from .device import Missing
from .look import Failure

SELECTOR = "ONEAPI_DEVICE_SELECTOR"

_SYCL_BUILD = (
    "use a oneDNN with a GPU runtime: in a virtual environment with dpctl, onednn and onednn-devel "
    "from pip, build this package with ONEDNN_ROOT set to the environment"
)


def no_cpu(runtime: str, failures: Sequence[Failure]) -> Missing:
    """Return why a oneDNN whose CPU runtime is SYCL finds no CPU."""
    failed = _of("cpu", failures)
    if failed is not None:
        return failed
    known = [d for d in drivers.registered() if d.is_intels_for_cpus]
    if any(d.exists for d in known):
        files = ", ".join(f"{d.file} (by {d.told_by})" for d in known)
        return Missing(
            "cpu",
            f"OpenCL's driver for CPUs is registered, {files}, but shows no device",
            "set OCL_ICD_ENABLE_TRACE=1 to have OpenCL's loader report what it does",
        )
    why = f"{runtime} finds the CPU through OpenCL, which knows no driver for it"
    if known:
        why += f"; {known[0].told_by} names {known[0].file}, which does not exist"
    installed = drivers.installed()
    if installed is not None:
        # Otherwise `provide` would have named it.
        value = os.environ.get(drivers.VARIABLE)
        return Missing(
            "cpu",
            f"{why}; {drivers.VARIABLE} was set to {value!r}",
            f"unset {drivers.VARIABLE}, so that importing this package sets it, or set it to "
            f"{installed}",
        )
    return Missing("cpu", why, f"pip install {drivers.CPU_PACKAGE}, in this environment")


def no_gpu(onednn: Mapping[str, Any], failures: Sequence[Failure]) -> Missing:
    """Return why there is no GPU, after these failures of the search for devices."""
    runtime = str(onednn["gpu_runtime"])
    if runtime not in ("SYCL", "OpenCL"):
        release = f"oneDNN {version_t(onednn).release}"
        return Missing("gpu", f"{release} was built without a GPU runtime", _SYCL_BUILD)
    return _of("gpu", failures) or Missing(
        "gpu",
        f"{runtime} shows no GPU",
        "needs an Intel GPU that this user may open (/dev/dri/renderD*; a container needs --device "
        "/dev/dri), and Intel's driver for GPU computing (Debian and Ubuntu: libze1, "
        "libze-intel-gpu1, intel-opencl-icd)",
    )


def no_package(name: str, why: str, extra: str) -> Missing:
    """Return what is missing without an optional package, which the extra installs."""
    return Missing(
        name,
        f"{why}; without it, GPUs' names and memory are unknown, and {extra}_interop can't be used",
        install_line(extra),
    )


def _of(kind: str, failures: Sequence[Failure]) -> Missing | None:
    """Return the failure of the search for devices of a kind, or the setting that may hide them."""
    texts = [f.text for f in failures if f.kind in (kind, "")]
    hiding = os.environ.get(SELECTOR)
    if not texts and hiding:
        return Missing(kind, f"{SELECTOR} is {hiding!r}, which may hide it", f"unset {SELECTOR}")
    if not texts:
        return None
    settings = [
        f"{name}={os.environ[name]}"
        for name in (SELECTOR, drivers.VARIABLE, drivers.VENDORS_VARIABLE)
        if name in os.environ and os.environ[name] != drivers.provided()
    ]
    remedy = "update or remove the driver"
    if settings:
        remedy = f"try without these settings: {', '.join(settings)}"
    return Missing(kind, "; ".join(texts), remedy)

"""The OpenCL drivers of this process; Intel's for CPUs is found where pip has put it.

oneDNN on SYCL reaches the CPU through OpenCL. Its loader knows drivers from files in
``/etc/OpenCL/vendors`` (or ``OCL_ICD_VENDORS``) and, beside them, from ``OCL_ICD_FILENAMES``. pip's
package ``intel-opencl-rt`` puts a driver for CPUs into a virtual environment, where the loader does
not look; so importing this package names it in ``OCL_ICD_FILENAMES``, for this process and its
children. Whoever has set that variable, even to nothing, is left alone.

The loader reads the variable when SYCL first looks for devices, which importing dpctl does not yet
make it do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CPU_PACKAGE",
    "VARIABLE",
    "VENDORS_VARIABLE",
    "Driver",
    "installed",
    "provide",
    "provided",
    "registered",
]

VARIABLE = "OCL_ICD_FILENAMES"
CPU_PACKAGE = "intel-opencl-rt"
_CPU_DRIVER = "libintelocl.so"
VENDORS_VARIABLE = "OCL_ICD_VENDORS"
_VENDORS = "/etc/OpenCL/vendors"

_provided: str | None = None


@dataclass(frozen=True)
class Driver:
    """A driver that OpenCL's loader is told of.

    Parameters
    ----------
    file : str
        The library; a name without a folder is looked for as all libraries are.
    told_by : str
        The variable or the file that names it.
    """

    file: str
    told_by: str

    @property
    def exists(self) -> bool:
        """Whether the library is there, as far as its name tells."""
        return os.sep not in self.file or os.path.exists(self.file)

    @property
    def is_intels_for_cpus(self) -> bool:
        """Whether it is the one of `CPU_PACKAGE`, from wherever it came."""
        return os.path.basename(self.file).startswith(_CPU_DRIVER)


def registered() -> list[Driver]:
    """All drivers that OpenCL's loader is told of, those of the variable first."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    found = [Driver(file, VARIABLE) for file in named if file]
    place = Path(os.environ.get(VENDORS_VARIABLE) or _VENDORS)
    try:
        files = sorted(place.glob("*.icd")) if place.is_dir() else [place]
    except OSError:
        return found
    for file in files:
        try:
            lines = file.read_text(errors="replace").split()
        except OSError:
            continue
        found += [Driver(line, str(file)) for line in lines[:1]]
    return found


def installed() -> str | None:
    """The driver for CPUs that pip has installed for this Python; None if it has not."""
    from importlib import metadata  # takes longer than all else here, and most builds need none

    try:
        files = metadata.files(CPU_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == _CPU_DRIVER:
            # Not resolved: its companions lie beside the name, not beside what a link points to.
            place = os.path.abspath(str(file.locate()))
            return place if os.path.exists(place) else None
    return None


def provide() -> None:
    """Name the installed driver for CPUs in the variable, where no such driver is known yet."""
    global _provided
    if VARIABLE in os.environ:
        return
    if any(driver.is_intels_for_cpus and driver.exists for driver in registered()):
        return
    driver = installed()
    if driver is not None:
        os.environ[VARIABLE] = _provided = driver


def provided() -> str | None:
    """The driver that `provide` has named; None if there was nothing to do."""
    return _provided

"""The OpenCL drivers of this process, and a search for Intel's CPU driver from pip.

oneDNN on SYCL reaches the CPU through OpenCL. Its loader knows drivers from files in
``/etc/OpenCL/vendors`` (or ``OCL_ICD_VENDORS``), and from ``OCL_ICD_FILENAMES``. pip's
package ``intel-opencl-rt`` puts a driver for CPUs into a virtual environment, where the loader does
not look; so importing this package names it in ``OCL_ICD_FILENAMES``, for this process and its
children. If that variable is set, even to nothing, we leave it alone.

The loader reads the variable when SYCL first looks for devices; importing dpctl does not yet make
SYCL do that.
"""

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "OCL_ICD_FILENAMES"
CPU_PACKAGE = "intel-opencl-rt"
_CPU_DRIVER = "libintelocl.so"
VENDORS_VARIABLE = "OCL_ICD_VENDORS"
_VENDORS = "/etc/OpenCL/vendors"

_provided: str | None = None


@dataclass(frozen=True)
class Driver:
    """A driver that is registered with OpenCL's loader."""

    file: str  # the library; the linker searches for a name without a folder as for any library
    told_by: str  # the variable or the file that names it

    @property
    def exists(self) -> bool:
        """Whether the library exists; true for a name without a folder."""
        return os.sep not in self.file or os.path.exists(self.file)

    @property
    def is_intels_for_cpus(self) -> bool:
        """Whether it is the driver of `CPU_PACKAGE`, from any source."""
        return os.path.basename(self.file).startswith(_CPU_DRIVER)


def registered() -> list[Driver]:
    """Return all drivers that are registered with OpenCL's loader, those of the variable first."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    drivers = [Driver(file, VARIABLE) for file in named if file]
    place = Path(os.environ.get(VENDORS_VARIABLE) or _VENDORS)
    try:
        files = sorted(place.glob("*.icd")) if place.is_dir() else [place]
    except OSError:
        return drivers
    for file in files:
        try:
            lines = file.read_text(errors="replace").split()
        except OSError:
            continue
        drivers += [Driver(line, str(file)) for line in lines[:1]]
    return drivers


def installed() -> str | None:
    """Return the CPU driver that pip has installed for this Python, or None."""
    from importlib import metadata  # this import is slow, and most builds need no driver

    try:
        files = metadata.files(CPU_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == _CPU_DRIVER:
            # Links are not resolved, as the driver's companions are next to the link.
            place = os.path.abspath(str(file.locate()))
            return place if os.path.exists(place) else None
    return None


def provide() -> None:
    """Name the installed CPU driver in the variable, if it is unset and no such driver is known."""
    global _provided
    if VARIABLE in os.environ:
        return
    if any(driver.is_intels_for_cpus and driver.exists for driver in registered()):
        return
    driver = installed()
    if driver is not None:
        os.environ[VARIABLE] = _provided = driver


def provided() -> str | None:
    """Return the driver that `provide` has named; None if it named none."""
    return _provided

"""Load the extension so that it finds its own oneDNN and no other.

Python loads extensions with local symbols, which keeps torch's oneDNN and ours apart. A library
that was loaded with global symbols (``sys.setdlopenflags(os.RTLD_GLOBAL)``, LD_PRELOAD) would come
first in the search all the same, so where there is one we load ours with RTLD_DEEPBIND: its own
dependencies then come before the global ones. We do so only then, because deep binding also
bypasses a preloaded allocator.

Where the extension's oneDNN runs on OpenMP, its threads wait briefly (``openmp_waiting``), and are
no more than a container's CPU quota has (``cpu_quota``). Where it runs on SYCL, we provide the
driver through which SYCL finds the CPU before anybody can ask for a device.

One process runs one copy of this package. Both copies have one name, so what either imports while
it runs may come from the other; and the dynamic linker knows their libraries by one name, so it
would give the second copy the first one's. Other packages' oneDNN runs beside ours.
"""

import ctypes
import importlib
import os
import re
import sys
from pathlib import Path

from . import cpu_quota
from .interpreter import require_gil, require_main_interpreter
from .loaded import loaded_here
from .openmp_waiting import brief

# A copy's extension; its library may also lie elsewhere, where it is an installed one.
_OF_A_COPY = re.compile(r".*/(?:onednn_graph_py/_core\..*so|libdnnl_ogp\.so)")


def _foreign_onednn_is_global() -> bool:
    try:
        return hasattr(ctypes.CDLL(None), "dnnl_version")
    except OSError:  # a static interpreter has no global symbols to find
        return False


def _refuse_another_copy() -> None:
    own = Path(__file__).parents[2]
    for path in sorted(filter(_OF_A_COPY.match, loaded_here())):
        if Path(path).parent.resolve() != own.resolve():
            raise ImportError(
                f"this process already runs another copy of onednn_graph_py, of which {path} is "
                f"loaded; this copy is {own}. Use one copy in a process, and another process for "
                "the other."
            )


def _load() -> None:
    require_main_interpreter()
    _refuse_another_copy()
    flags = sys.getdlopenflags()
    deepbind = getattr(os, "RTLD_DEEPBIND", 0)
    if deepbind and _foreign_onednn_is_global():
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | deepbind)
    try:
        with brief():
            core = importlib.import_module("onednn_graph_py._core")
    finally:
        sys.setdlopenflags(flags)
    require_gil()
    cpu_quota.follow(core)
    if core.version()["cpu_runtime"] == "SYCL":
        from . import opencl_drivers  # other builds need not wait for this import

        opencl_drivers.provide()


_load()

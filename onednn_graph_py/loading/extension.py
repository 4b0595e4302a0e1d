"""Load the extension so that it finds its own oneDNN and no other.

Python loads extensions with local symbols, which keeps torch's oneDNN and ours apart. A library
that was loaded with global symbols (``sys.setdlopenflags(os.RTLD_GLOBAL)``, LD_PRELOAD) would come
first in the search all the same, so where there is one we load ours with RTLD_DEEPBIND: its own
dependencies then come before the global ones. We do so only then, because deep binding also
bypasses a preloaded allocator.

Where the extension's oneDNN runs on SYCL, we provide the driver through which SYCL finds the CPU
before anybody can ask for a device.

Two copies of this package, each with a oneDNN of its own, can't run in one process: the dynamic
linker knows both libraries by one name and would give the second copy the first one's.
"""

import ctypes
import importlib
import os
import re
import sys
from pathlib import Path

from .interpreter import require_gil, require_main_interpreter

_LIBRARY = "libdnnl_ogp.so"


def _foreign_onednn_is_global() -> bool:
    try:
        return hasattr(ctypes.CDLL(None), "dnnl_version")
    except OSError:  # a static interpreter has no global symbols to find
        return False


def _refuse_the_library_of_another_copy() -> None:
    own = next(Path(__file__).parent.parent.glob(f"{_LIBRARY}*"), None)
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return
    for path in set(re.findall(rf" (/.*/{re.escape(_LIBRARY)}\S*)", maps)):
        if own and Path(path).parent.resolve() != own.parent.resolve():
            raise ImportError(
                f"this process already runs the oneDNN of another copy of onednn_graph_py, {path}; "
                f"the one of this copy is {own}. Use one copy in a process, and another process "
                "for the other."
            )


def _load() -> None:
    require_main_interpreter()
    _refuse_the_library_of_another_copy()
    flags = sys.getdlopenflags()
    deepbind = getattr(os, "RTLD_DEEPBIND", 0)
    if deepbind and _foreign_onednn_is_global():
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | deepbind)
    try:
        core = importlib.import_module("onednn_graph_py._core")
    finally:
        sys.setdlopenflags(flags)
    require_gil()
    if core.version()["cpu_runtime"] == "SYCL":
        from . import opencl_drivers  # other builds need not wait for this import

        opencl_drivers.provide()


_load()

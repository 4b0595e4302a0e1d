"""Loads the extension so that it finds its own oneDNN and no other.

Python loads extensions with local symbols, which keeps torch's oneDNN and ours apart. A library
that was loaded with global symbols (``sys.setdlopenflags(os.RTLD_GLOBAL)``, LD_PRELOAD) would come
first in the search all the same, so where one is found ours is loaded with RTLD_DEEPBIND: its own
dependencies then come before the global ones. Only then, because deep binding also goes past an
allocator that was preloaded.

Where the extension's oneDNN runs on SYCL, the driver through which SYCL finds the CPU is provided
before anybody can ask for a device.
"""

import ctypes
import importlib
import os
import sys


def _foreign_onednn_is_global() -> bool:
    try:
        return hasattr(ctypes.CDLL(None), "dnnl_version")
    except OSError:  # a static interpreter has no global symbols to find
        return False


def _load() -> None:
    flags = sys.getdlopenflags()
    deepbind = getattr(os, "RTLD_DEEPBIND", 0)
    if deepbind and _foreign_onednn_is_global():
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_LOCAL | deepbind)
    try:
        core = importlib.import_module("onednn_graph_py._core")
    finally:
        sys.setdlopenflags(flags)
    if core.version()["cpu_runtime"] == "SYCL":
        from . import opencl_drivers  # for which others need not wait

        opencl_drivers.provide()


_load()

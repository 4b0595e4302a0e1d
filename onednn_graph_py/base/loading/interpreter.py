"""The needs of this package: the main interpreter, with the GIL.

The GIL guards what objects and threads share in the extension; oneDNN, its threads and its caches
belong to the whole process.
"""

import ctypes
import sys


def require_main_interpreter() -> None:
    """Raise ImportError in a subinterpreter, where Python up to 3.11 would wait for ever."""
    current = ctypes.pythonapi.PyInterpreterState_Get
    main = ctypes.pythonapi.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    if current() != main():
        raise ImportError(
            "onednn_graph_py can't be imported in a subinterpreter: oneDNN, its threads and its "
            "caches belong to the whole process; use processes, or threads"
        )


def require_gil() -> None:
    """Raise ImportError if the GIL stays disabled although the extension needs it."""
    is_enabled = getattr(sys, "_is_gil_enabled", None)  # from Python 3.13 on
    if is_enabled is not None and not is_enabled():
        raise ImportError(
            "onednn_graph_py needs the GIL, which PYTHON_GIL=0 or -X gil=0 keeps disabled; without "
            "that setting a free-threaded Python enables it when it imports this package"
        )

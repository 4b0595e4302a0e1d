"""What a run with sanitizers needs: ``./dev test --sanitize=address,undefined`` or ``=thread``.

Only the extension is compiled with them. Python, NumPy, oneDNN and OpenMP are not: what the
sanitizers see of these are calls of the C library (memory, copies, locks, threads).
"""

import os
import re
import subprocess
from pathlib import Path

KNOWN = ("undefined", "address", "address,undefined", "thread")

TESTS = (
    "allocator", "caches", "compiled_partition", "constant_memory", "engine", "execution",
    "executor", "fork", "fuzz", "graph", "host_steps", "leaks", "lifetime", "logical_tensor", "op",
    "partition", "races", "release_constants", "sanitizers", "stream", "tensor", "views",
)  # fmt: skip
"""The tests that run if none are named: the mirror, execution, memory, threads, lifetimes."""

_SUPPRESSED = """
# libgomp's barriers and its hand-over of work to its threads are futexes and atomics in code that
# isn't instrumented: TSan sees no order between a copy that one thread makes in a parallel region
# and one that another thread makes after it. So what libgomp itself calls is not watched.
called_from_lib:libgomp.so

# The same copies are called from oneDNN's kernels. What our code does with the same memory is
# watched still, in oneDNN's threads too: an allocator's calls, for example.
called_from_lib:libdnnl

# When a thread ends, the C library frees its thread-local variables, which the thread wrote; a new
# thread may get them before. What orders this is in the dynamic loader, which isn't instrumented.
race:_dl_deallocate_tls

# Graphviz's `dot`, a program that draws models, loads fonts in a thread of a library of its own.
race:libfontconfig.so
"""
"""TSan's suppressions, by library; none may ever name the extension. ASan has none."""

_SUPPRESSED_IN_HEADERS = """\
# Python ends a daemon's thread where it asks for the GIL when the interpreter is gone: the C
# library unwinds its stack, and pybind11 lets that pass by `catch (abi::__forced_unwind &)`. There
# is no such object, so that the reference is null.
null:pybind11.h
"""
"""UBSan's suppressions, by check and file; none may ever name a file of ours."""

_OPTIONS = {
    # A crash is a crash with a traceback of Python, by faulthandler; some tests want one.
    "handle_segv": 0,
    "handle_sigbus": 0,
    "handle_sigfpe": 0,
    # Memory that is not to be had raises, as it does without a sanitizer.
    "allocator_may_return_null": 1,
    "print_stacktrace": 1,
}


def environment(names: str, extension: Path, folder: Path) -> dict[str, str]:
    """Return the variables for a Python that is to load a sanitized extension.

    Parameters
    ----------
    names : str
        One of `KNOWN`.
    extension : pathlib.Path
        The compiled extension.
    folder : pathlib.Path
        Where reports go, so that those of processes that nobody listens to are found, too.
    """
    dynamic = subprocess.check_output(
        ["readelf", "-dW", str(extension)], text=True, env={**os.environ, "LC_ALL": "C"}
    )
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    # They replace malloc and the like, for which they have to come before the C library; the C++
    # library comes along, so that they find what it throws with.
    preloaded = [name for name in needed if re.match(r"lib([at]san|ubsan|stdc\+\+)\.so", name)]
    suppressions = folder / "suppressions.txt"
    suppressions.write_text(_SUPPRESSED)
    in_headers = folder / "suppressions_in_headers.txt"
    in_headers.write_text(_SUPPRESSED_IN_HEADERS)
    reports = {**_OPTIONS, "log_path": folder / "report"}
    options = {
        # Python leaves objects to the end of the process; test_leaks.py looks for leaks.
        "ASAN": {**reports, "detect_leaks": 0, "detect_stack_use_after_return": 1},
        "UBSAN": {**reports, "suppressions": in_headers},
        # A forked process may start threads; tests/processes/test_fork.py does.
        "TSAN": {**reports, "suppressions": suppressions, "die_after_fork": 0},
    }
    variables = {
        f"{tool}_OPTIONS": ":".join(f"{name}={value}" for name, value in values.items())
        for tool, values in options.items()
    }
    if "address" in names:
        # Python's own allocator would hide from ASan where an object ends.
        variables["PYTHONMALLOC"] = "malloc"
    if "thread" in names:
        # OpenBLAS hands work to its threads as libgomp does, and a process may have two OpenBLAS,
        # which no suppression can name. The threads under test are not NumPy's.
        variables["OPENBLAS_NUM_THREADS"] = "1"
    return {**variables, "LD_PRELOAD": " ".join(preloaded)}


_REPORT = re.compile(r"ERROR: |WARNING: ThreadSanitizer|: runtime error: ")


def reports(folder: Path) -> list[str]:
    """Return what the sanitizers found and wrote into a folder, a text for each process."""
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob("report.*"))]
    # ASan also warns of memory that is not to be had, for which some tests ask.
    return [text for text in texts if _REPORT.search(text)]

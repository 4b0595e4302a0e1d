"""Environment variables for helper processes."""

import os
import re

from ... import _core

# The caller sets these for its own output; in a helper process they would only cost time.
_OUTPUT = re.compile(r"(ONEDNN|DNNL)_(VERBOSE|GRAPH_DUMP|JIT_DUMP|GRAPH_VERBOSE)")


def quiet() -> dict[str, str]:
    """Return our environment without the variables that make oneDNN print or write files."""
    return {k: v for k, v in os.environ.items() if not _OUTPUT.match(k)}


def instructions() -> dict[str, str]:
    """Return variables that make oneDNN use the same instruction set as in this process."""
    return {
        "ONEDNN_MAX_CPU_ISA": _core.get_effective_cpu_isa().name.upper(),
        "ONEDNN_CPU_ISA_HINTS": _core.get_cpu_isa_hints().name.upper(),
    }

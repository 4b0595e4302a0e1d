"""What another process is told by its environment."""

from __future__ import annotations

import os
import re

from .. import _core

__all__ = ["instructions", "quiet"]

# What these may be for the caller has no place in another process; printing takes time too.
_OUTPUT = re.compile(r"(ONEDNN|DNNL)_(VERBOSE|GRAPH_DUMP|JIT_DUMP|GRAPH_VERBOSE)")


def quiet() -> dict[str, str]:
    """The environment of this process, without what has oneDNN print or write files."""
    return {k: v for k, v in os.environ.items() if not _OUTPUT.match(k)}


def instructions() -> dict[str, str]:
    """What has oneDNN use the instruction set that it uses here, whoever chose it."""
    return {
        "ONEDNN_MAX_CPU_ISA": _core.get_effective_cpu_isa().name.upper(),
        "ONEDNN_CPU_ISA_HINTS": _core.get_cpu_isa_hints().name.upper(),
    }

"""ccache, where it is installed: objects that were compiled before are not compiled again."""

import os
import shutil
from pathlib import Path

# CMake itself reads these; who set one has chosen.
_LAUNCHERS = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")


def arguments() -> list[str]:
    """The CMake arguments that have the compiler called through ccache, if there is one."""
    program = shutil.which("ccache")
    if program is None:
        return []
    return [f"-D{name}={program}" for name in _LAUNCHERS if name not in os.environ]


def environment(root: Path) -> dict[str, str]:
    """The settings that let ccache recognise files from a build directory of another name.

    Parameters
    ----------
    root : Path
        The folder that all sources and builds lie in.
    """
    settings = {
        # Precompiled headers: their macros are in what ccache compares, their times are not.
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",
        "CCACHE_BASEDIR": str(root),
    }
    return {name: value for name, value in settings.items() if name not in os.environ}

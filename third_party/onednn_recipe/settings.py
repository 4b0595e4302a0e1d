"""The environment variables that steer the recipe. No other module reads the environment."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .report import RecipeError

# Variables that change what the compiler makes: part of the cache key.
FLAG_VARIABLES = ("CC", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")

# What one compile job of oneDNN takes at most.
_JOB_BYTES = 1500 << 20

HELP = """\
ONEDNN_ROOT              use this installed oneDNN, build nothing
ONEDNN_SOURCE_DIR        build this oneDNN source tree
ONEDNN_VERSION           build exactly this version
ONEDNN_GIT_URL           fetch the pinned commit from this git repository instead of upstream's
ONEDNN_DEBIAN_MIRROR     fetch Debian's source package from this mirror (default: apt's own)
ONEDNN_CMAKE_ARGS        further CMake arguments, quoted as for a shell
ONEDNN_GRAPH_PY_CACHE    where sources and builds are kept
CMAKE_BUILD_PARALLEL_LEVEL   number of compile jobs (default: the CPUs this process may use, and
                         fewer where memory is short)
CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS   as always in CMake"""


@dataclass(frozen=True)
class Settings:
    """What the user asked for through the environment."""

    cache_dir: Path
    root: Path | None
    source_dir: Path | None
    version: str | None
    git_url: str | None
    debian_mirror: str | None
    cmake_args: tuple[str, ...]
    cxx: str | None
    flags: tuple[tuple[str, str], ...]
    jobs: int

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Settings":
        """Read and check the variables; an empty one counts as unset."""

        def directory(name: str) -> Path | None:
            value = env.get(name)
            if not value:
                return None
            path = Path(value).expanduser()
            if not path.is_dir():
                raise RecipeError(
                    f"{name} should name an existing directory, and {value!r} is none. "
                    f"Correct it, or unset {name}."
                )
            return path.resolve()

        base = env.get("XDG_CACHE_HOME") or "~/.cache"
        cache = env.get("ONEDNN_GRAPH_PY_CACHE") or f"{base}/onednn_graph_py"
        return cls(
            cache_dir=Path(cache).expanduser().absolute(),
            root=directory("ONEDNN_ROOT"),
            source_dir=directory("ONEDNN_SOURCE_DIR"),
            version=env.get("ONEDNN_VERSION") or None,
            git_url=env.get("ONEDNN_GIT_URL") or None,
            debian_mirror=env.get("ONEDNN_DEBIAN_MIRROR") or None,
            cmake_args=tuple(shlex.split(env.get("ONEDNN_CMAKE_ARGS", ""))),
            cxx=env.get("CXX") or None,
            flags=tuple((name, env[name]) for name in FLAG_VARIABLES if env.get(name)),
            jobs=_jobs(env.get("CMAKE_BUILD_PARALLEL_LEVEL")),
        )


def _jobs(value: str | None) -> int:
    if not value:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        # Unlike os.cpu_count(), this respects taskset and container CPU sets.
        return max(1, min(len(os.sched_getaffinity(0)), memory // _JOB_BYTES))
    if not value.isdecimal() or int(value) < 1:
        raise RecipeError(
            f"CMAKE_BUILD_PARALLEL_LEVEL should be a whole number of jobs, 1 or more; "
            f"it is {value!r}. Correct it, or unset it."
        )
    return int(value)

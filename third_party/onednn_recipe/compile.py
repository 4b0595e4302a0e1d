"""Configure, compile and install one source tree into one prefix of the cache."""

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import prefix
from .cache import Cache, write_record
from .process import Steps
from .report import RecipeError, say
from .united import Misfits

# Ninja goes on to find more sources that can't be compiled together, but not without end.
_FAILURES = 12


@dataclass(frozen=True)
class Job:
    """One build: what, how, and under which key."""

    key: str
    tree: Path
    version: str
    arguments: tuple[str, ...]
    tools: dict[str, str]
    jobs: int
    minimum_version: str
    # A tree that the user edits keeps its objects, so that the next build is incremental.
    keep_objects: bool
    # What the finished prefix says about itself.
    stamp: Mapping[str, object]


def run(job: Job, cache: Cache, lock: int) -> None:
    """Build and install; the stamp is written last, so no unfinished prefix ever has one."""
    build_dir, target, log_path = cache.build(job.key), cache.prefix(job.key), cache.log(job.key)
    shutil.rmtree(target, ignore_errors=True)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    resumed = (build_dir / "build.ninja").is_file()
    say(f"{'resuming' if resumed else 'building'} {job.version} from {job.tree}")
    say(f"{job.jobs} jobs, options {' '.join(job.arguments)}")
    say(f"full output: {log_path}")
    start = time.monotonic()
    cmake, ninja = job.tools["cmake"], job.tools["ninja"]
    ccache, env = _ccache(cache.root)
    # Appending keeps the record of an interrupted run that this one resumes.
    with log_path.open("ab" if resumed else "wb") as log:
        steps = Steps(f"oneDNN {job.version}", log, job.tree, lock, env)
        configure = [
            cmake, "-S", str(job.tree), "-B", str(build_dir), "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_INSTALL_PREFIX={target}",
            *ccache, *job.arguments,
        ]  # fmt: skip
        if steps.status(configure) and resumed:
            # A build directory can be spoilt by what changed around it since: start it afresh.
            say("the earlier build directory no longer configures; starting it afresh")
            shutil.rmtree(build_dir)
            steps.check("configuring", configure)
        elif not (build_dir / "build.ninja").is_file():
            steps.fail("configuring")
        _check_runtime(job, build_dir)
        misfits = Misfits(job.tree, build_dir)
        compiling = [ninja, "-C", str(build_dir), "-j", str(job.jobs), "-k", str(_FAILURES)]
        while steps.status(compiling, misfits.feed):
            if not misfits.settle():
                steps.fail("compiling")
            say("some sources can't be compiled together; compiling those alone")
            steps.check("configuring", configure)
        steps.check("installing", [cmake, "--install", str(build_dir)])
    prefix.inspect(target, job.minimum_version, f"See {log_path}.")
    seconds = round(time.monotonic() - start)
    write_record(cache.prefix_record(job.key), {**job.stamp, "seconds": seconds})
    if not job.keep_objects:
        shutil.rmtree(build_dir, ignore_errors=True)
    say(f"{job.version} is ready in {target} ({seconds // 60} min {seconds % 60} s)")


def _ccache(root: Path) -> tuple[list[str], dict[str, str]]:
    """The arguments and variables that have ccache, if there is one, keep and find objects.

    CMake reads the launchers' variables, too, and ccache its own: who set one has chosen.
    """
    program = shutil.which("ccache")
    launchers = ("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
    env = {
        # Precompiled headers: their macros are in what ccache compares, their times are not.
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",
        # Files of a build directory of another name are the same.
        "CCACHE_BASEDIR": str(root),
    }
    return (
        [f"-D{name}={program}" for name in launchers if program and name not in os.environ],
        {name: value for name, value in env.items() if name not in os.environ},
    )


def _check_runtime(job: Job, build_dir: Path) -> None:
    """Refuse what oneDNN does without a word: build single-threaded where OpenMP is missing."""
    # The last argument of a name wins.
    options = re.findall(r"^-DDNNL_CPU_RUNTIME(?::\w+)?=(.*)$", "\n".join(job.arguments), re.M)
    runtime = prefix.cpu_runtime(build_dir / "include")
    if options[-1:] == ["OMP"] and runtime not in (None, "OMP"):
        raise RecipeError(
            f"oneDNN was to use OpenMP, but CMake found none for this compiler, so oneDNN would "
            f"run on one thread ({runtime}). Install the compiler's OpenMP (for clang: libomp), or "
            f"ask for it: ONEDNN_CMAKE_ARGS=-DDNNL_CPU_RUNTIME={runtime}"
        )

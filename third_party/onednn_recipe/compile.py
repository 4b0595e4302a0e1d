"""Configure, compile and install one source tree into one prefix of the cache."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from . import ccache, prefix, process
from .cache import Cache, write_record
from .lacking import lacking
from .progress import Progress
from .report import RecipeError, say
from .united import Misfits

LOG_LINES_SHOWN = 30
# Ninja goes on to find more sources that can't be compiled together, but not without end.
_FAILURES = 12


@dataclass(frozen=True)
class Job:
    """One build: what, how, and under which key."""

    key: str
    tree: Path
    version: str
    arguments: tuple[str, ...]
    options: dict[str, str]
    cmake: str
    ninja: str
    jobs: int
    minimum_version: str
    # A tree that the user edits keeps its objects, so that the next build is incremental.
    keep_objects: bool
    # What the finished prefix says about itself.
    stamp: dict[str, object]


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
    # Appending keeps the record of an interrupted run that this one resumes.
    with log_path.open("ab" if resumed else "wb") as log:
        steps = _Steps(log_path, log, job, cache, lock)
        configure = [
            job.cmake, "-S", str(job.tree), "-B", str(build_dir), "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={job.ninja}", f"-DCMAKE_INSTALL_PREFIX={target}",
            *ccache.arguments(),
            *job.arguments,
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
        compiling = [
            job.ninja, "-C", str(build_dir), "-j", str(job.jobs), "-k", str(_FAILURES),
        ]  # fmt: skip
        while steps.status(compiling, misfits.feed):
            if not misfits.settle():
                steps.fail("compiling")
            say("some sources can't be compiled together; compiling those alone")
            steps.check("configuring", configure)
        steps.check("installing", [job.cmake, "--install", str(build_dir)])
    found = prefix.inspect(target, job.minimum_version, f"See {log_path}.")
    seconds = round(time.monotonic() - start)
    write_record(cache.prefix_record(job.key), {**job.stamp, "seconds": seconds})
    if not job.keep_objects:
        shutil.rmtree(build_dir, ignore_errors=True)
    say(f"{found.version} is ready in {target} ({seconds // 60} min {seconds % 60} s)")


class _Steps:
    """Runs the commands of one build, all into one log."""

    def __init__(self, log_path: Path, log: BinaryIO, job: Job, cache: Cache, lock: int) -> None:
        self._log_path = log_path
        self._log = log
        self._job = job
        self._lock = lock
        self._env = {
            **os.environ,
            **ccache.environment(cache.root),
            "NINJA_STATUS": "[%f/%t] ",
            # oneDNN asks git for its commit; an unpacked tree must not answer with that of a
            # repository which happens to hold the cache.
            "GIT_CEILING_DIRECTORIES": str(job.tree.parent),
        }

    def status(
        self, command: Sequence[str], listen: Callable[[str], None] = lambda line: None
    ) -> int:
        progress = Progress(f"oneDNN {self._job.version}", sys.stderr)

        def feed(line: str) -> None:
            progress.feed(line)
            listen(line)

        try:
            return process.run_logged(
                command,
                log=self._log,
                env=self._env,
                keep_open=self._lock,
                on_line=feed,
                on_tick=progress.tick,
            )
        finally:
            progress.finish()

    def check(self, what: str, command: Sequence[str]) -> None:
        if self.status(command):
            self.fail(what)

    def fail(self, what: str) -> None:
        if lack := lacking(process.tail(self._log_path, 1000)):
            raise RecipeError(f"{what} oneDNN {self._job.version} failed: {lack}")
        raise RecipeError(
            f"{what} oneDNN {self._job.version} failed. The last {LOG_LINES_SHOWN} lines of "
            f"{self._log_path}:\n{process.tail(self._log_path, LOG_LINES_SHOWN)}\n"
            f"Full log: {self._log_path}"
        )


def _check_runtime(job: Job, build_dir: Path) -> None:
    """Refuse what oneDNN does without a word: build single-threaded where OpenMP is missing."""
    wanted = job.options.get("DNNL_CPU_RUNTIME")
    found = prefix.cpu_runtime(build_dir / "include")
    if wanted == "OMP" and found not in (None, "OMP"):
        raise RecipeError(
            f"oneDNN was to use OpenMP, but CMake found none for this compiler, so oneDNN would "
            f"run on one thread ({found}). Install the compiler's OpenMP (for clang: libomp), or "
            f"ask for it: ONEDNN_CMAKE_ARGS=-DDNNL_CPU_RUNTIME={found}"
        )

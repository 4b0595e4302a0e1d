"""Run long child processes so that they are watched while they work and never outlive us."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, TextIO

from .report import RecipeError, lacking

PATIENCE = 10  # seconds for a process to end by itself, then on SIGTERM
_LOG_LINES_SHOWN = 30
_STEP = re.compile(r"\[(\d+)/(\d+)\]")


class Steps:
    """The commands of one build, all into one log.

    Each leads a process group of its own. On Ctrl-C, SIGTERM or SIGHUP the whole group is stopped
    before the exception goes on.

    Parameters
    ----------
    label : str
        What is built.
    log : BinaryIO
        A file that is open for writing.
    tree : Path
        The source tree.
    lock : int
        The cache's lock, which children inherit.
    env : Mapping
        Further variables.
    """

    def __init__(
        self, label: str, log: BinaryIO, tree: Path, lock: int, env: Mapping[str, str]
    ) -> None:
        self._label = label
        self._log = log
        self._lock = lock
        # oneDNN asks git for its commit; an unpacked tree must not answer with that of a
        # repository which happens to hold the cache.
        ceiling = {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
        self._env = {**os.environ, **env, **ceiling, "NINJA_STATUS": "[%f/%t] "}

    def status(
        self, command: Sequence[str], listen: Callable[[str], object] = lambda line: None
    ) -> int:
        """Run a command, its progress shown; return its exit status."""
        progress = Progress(self._label, sys.stderr)
        self._write(f"$ {' '.join(command)}\n".encode())
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        options |= {"env": self._env, "pass_fds": (self._lock,)}
        with signals_raise(), started(command, **options) as process:
            assert process.stdout is not None
            with process.stdout as output:
                for line in output:
                    self._write(line)
                    text = line.decode(errors="replace").rstrip("\n")
                    progress.feed(text)
                    listen(text)
            return process.wait()

    def check(self, what: str, command: Sequence[str]) -> None:
        """Run a command; RecipeError has what was lacking or the log's end if it fails."""
        if self.status(command):
            self.fail(what)

    def output(self, command: Sequence[str]) -> list[str]:
        """The lines that a quick command prints."""
        lines: list[str] = []
        if self.status(command, lines.append):
            self.fail(shlex.join(command))
        return lines

    def fail(self, what: str) -> None:
        """Raise the error of a command that failed."""
        path = Path(self._log.name)
        lines = path.read_text(errors="replace").splitlines()
        if lack := lacking("\n".join(lines[-1000:])):
            raise RecipeError(f"{what} {self._label} failed: {lack}")
        end = "\n".join(lines[-_LOG_LINES_SHOWN:])
        raise RecipeError(
            f"{what} {self._label} failed. The last {_LOG_LINES_SHOWN} lines of {path}:\n{end}\n"
            f"Full log: {path}"
        )

    def _write(self, line: bytes) -> None:
        self._log.write(line)
        self._log.flush()


class Progress:
    """Ninja's ``[n/m]`` lines for a person: twenty lines of a build."""

    def __init__(self, label: str, stream: TextIO) -> None:
        self._label = label
        self._stream = stream
        self._start = time.monotonic()
        self._share = -1

    def feed(self, line: str) -> None:
        """Take one line of the build's output."""
        match = _STEP.match(line)
        if match is None:
            return
        done, total = int(match.group(1)), int(match.group(2))
        share = 20 * done // total
        if share == self._share:
            return
        self._share = share
        elapsed = time.monotonic() - self._start
        text = f"{self._label}: step {done} of {total}, {_clock(elapsed)} elapsed"
        if 0 < share < 20:  # the first steps are no measure of the rest
            text += f", about {_clock(elapsed / done * (total - done))} left"
        print(text, file=self._stream, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def started(
    command: Sequence[str],
    end: Callable[[subprocess.Popen[Any], BaseException], object] | None = None,
    **options: Any,
) -> Iterator[subprocess.Popen[Any]]:
    """Start a process, and end it if an exception leaves the block.

    Without `end` it leads a session without input, of which nothing is left. Signals wait until
    the process is known: an exception out of Popen would leave it alive.
    """
    if end is None:
        options |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
    process = None
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    )

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        process = subprocess.Popen(command, preexec_fn=unblock, **options)
        unblock()
        yield process
    except BaseException as error:
        unblock()
        if process is None:
            raise
        if end is None:
            stop_group(process)
        else:
            end(process, error)
        raise


def stop_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a session of its own, and all that it started."""
    # SIGTERM first: Ninja and the compilers remove their half-written files on it. (Not SIGINT: a
    # job that a shell started in the background inherits it as ignored.)
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=patience)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            continue
        except BaseException:  # a second Ctrl-C
            os.killpg(process.pid, signal.SIGKILL)
            raise
        # The leader is gone; whoever of its group is left gets the harder signal.


@contextmanager
def signals_raise() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end the process through exceptions, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup has SIGHUP ignored, and means it
            signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

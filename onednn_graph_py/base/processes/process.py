"""Processes that answer over a connection or run to the end, and how they end."""

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from ... import _core
from .forked import renew_in_forks
from .import_path import import_path


def cause(status: int) -> str:
    """Name an exit status, or the signal that a negative status stands for."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def ending(status: int, who: str = "the process") -> str:
    """Describe how a process ended, by its exit status, which is negative for a signal."""
    return f"{who} {'ended with' if status >= 0 else 'was ended by'} {cause(status)}"


def too_long(seconds: float, who: str = "it") -> str:
    """Say that a process took longer than its time limit."""
    return f"{who} took longer than {seconds:g} s"


def last_line(errors: str) -> str:
    """Return the last line that a process wrote, after a colon; empty if there is none."""
    lines = errors.strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


STARTUP = 120.0
"""Time limit in seconds for Python to start and import the package, on a busy machine too."""

# Ctrl-C on a terminal reaches helper processes too; their caller handles it, and ends them.
_CALLING = (
    "import sys; sys.path[:] = {path!a}; "  # before any import, which the current folder could hold
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from importlib import import_module; import_module({module!a}).main(*map(int, sys.argv[1:]))"
)
_KEPT = 2000  # the most bytes kept of a process's last output


class NoAnswer(Exception):
    """A process has ended, or takes too long.

    - `status`: its exit status, negative for a signal; None if it takes too long
    - `errors`: the end of its standard error, if `Process` keeps that
    """

    def __init__(self, reason: str, status: int | None = None, errors: str = "") -> None:
        super().__init__(reason)
        self.status, self.errors = status, errors


def calling(module: str) -> tuple[str, ...]:
    """Return arguments that make Python call a module's ``main``, with `import_path`."""
    program = _CALLING.format(path=import_path(module), module=module)
    # It minds no more of its surroundings than this one.
    flags = ["-E"] * sys.flags.ignore_environment + ["-s"] * sys.flags.no_user_site
    # From 3.13 on, Python imports a module before it runs the program, for which 3.11 has this.
    flags += ["-P"] * (sys.version_info >= (3, 11))
    return (*flags, "-c", program)


class Process:
    """A Python process, started with some arguments and the number of its end of a connection.

    - `*arguments`: such as those of `calling`
    - `environment`: by default the caller's
    - `keep_errors`: keep its standard error, which otherwise goes to the caller's
    - raises `OSError`: no process can be started
    """

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        keep_errors: bool = False,
    ) -> None:
        self._connection: Connection
        self._connection, its = Pipe()
        self._errors = tempfile.TemporaryFile() if keep_errors else None  # noqa: SIM115 (closed by leave)
        try:
            # Not multiprocessing's own processes: they would import the caller's script again.
            self._process = subprocess.Popen(
                [sys.executable, *arguments, str(its.fileno())],
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[its.fileno()],
            )
        except BaseException:
            self._close()
            raise
        finally:
            its.close()
        renew_in_forks(self)

    def _after_fork(self) -> None:
        # It is the parent's, which may end it by closing the connection.
        self._close()
        self._process.returncode = 0

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of this end of the connection, to wait for an answer."""
        return self._connection.fileno()

    def send(self, request: Any) -> None:
        """Send a request; if the process is gone, `answer` raises."""
        message = pickle.dumps(request)
        with contextlib.suppress(OSError):
            self._connection.send_bytes(message)

    def answer(self, timeout: float | None = None) -> Any:
        """Wait for an answer, with a time limit in seconds; raise `NoAnswer` if there is none."""
        try:
            in_time = self._connection.poll(timeout)
            message = self._connection.recv_bytes() if in_time else b""
        except (EOFError, OSError):
            status = self._process.wait()
            said = self._said()
            raise NoAnswer(ending(status) + last_line(said), status, said) from None
        if not in_time:
            raise NoAnswer(too_long(timeout or 0))
        return pickle.loads(message)

    def ask(self, request: Any, timeout: float | None = None) -> Any:
        """Send a request, and wait for the answer."""
        self.send(request)
        return self.answer(timeout)

    def _said(self) -> str:
        if self._errors is None or self._errors.closed:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _KEPT))
        return self._errors.read().decode(errors="replace")

    def _close(self) -> None:
        self._connection.close()
        if self._errors is not None:
            self._errors.close()

    def leave(self) -> None:
        """Close the connection, and wait until the process ends by itself."""
        self._close()
        self._process.wait()

    def kill(self) -> None:
        """Kill the process; whoever waits for its answer, in any thread, gets `NoAnswer`."""
        self._process.kill()

    def stop(self) -> None:
        """Kill the process, and wait for its end."""
        self.kill()
        self.leave()


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

"""Run a program and keep the graphs that it partitions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from .folder import DumpFolder

# Seconds between two searches for files, which a graph of another process could overwrite.
_INTERVAL = 0.05

_Handler = Callable[[int, FrameType | None], Any] | int | None


@dataclass(frozen=True)
class Captured:
    """The result of capturing the graphs of a program.

    Parameters
    ----------
    status : int
        The program's exit status, or the negative number of the signal that ended it.
    files : tuple of pathlib.Path
        The files that oneDNN wrote, in order; the last one may not be whole if the program ended.
    """

    status: int
    files: tuple[Path, ...]

    @property
    def graphs(self) -> int:
        """The number of graphs that were partitioned."""
        return sum("-partitioning" not in file.name for file in self.files)

    @property
    def why_none(self) -> str:
        """The reasons why there may be no graph; empty if there is one."""
        if self.files:
            return ""
        ended = f"; or signal {-self.status} ended it before that" if self.status < 0 else ""
        return (
            "the program partitioned none with oneDNN's Graph API, or by a oneDNN that was built "
            "without ONEDNN_ENABLE_GRAPH_DUMP, or in another working directory" + ended
        )


def capture(words: Sequence[str | os.PathLike[str]], folder: str | os.PathLike[str]) -> Captured:
    """Run a program in this working directory, and keep the graphs that it partitions.

    Every oneDNN that can write graphs does so, in the program and in those that it starts; see
    `onednn_graph_py.dump` for the files.

    Parameters
    ----------
    words : sequence of str or path
        The program and its arguments.
    folder : path
        Output folder; it is made if it does not exist.

    Raises
    ------
    OneDNNError
        Another capture goes on in this working directory.
    OSError
        The program can't be started, or a folder can't be written.

    Notes
    -----
    Graphs are written into the working directory and taken from there. Ids begin at the same number
    in every process: where several processes partition graphs at the same moment, one may overwrite
    the other's.
    """
    process = None
    with DumpFolder(Path.cwd(), folder) as watched:
        try:
            with _held_back() as came:
                process = subprocess.Popen(words, env={**os.environ, "ONEDNN_GRAPH_DUMP": "graph"})
                while process.returncode is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_INTERVAL)
                    watched.take()
                    while came:
                        _pass_on(*came.pop(0), process)
        except BaseException:  # such as what a handler of the caller raised
            if process is not None:
                process.terminate()
                process.wait()
            raise
    return Captured(process.returncode, tuple(watched.files))


def _interrupted(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the program too, unless a terminal's Ctrl-C has done so."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        process.send_signal(signal.SIGINT)
        return
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            process.send_signal(signal.SIGINT)
    finally:
        os.close(terminal)


@contextlib.contextmanager
def _held_back() -> Iterator[list[tuple[int, _Handler]]]:
    """Hold signals back, and yield the list of those that came, with their handlers.

    A handler that raises an exception within `Popen` leaves a program that nobody can end, or a
    lock that nobody releases.
    """
    came: list[tuple[int, _Handler]] = []
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # Python runs handlers in the main thread only, and only there they may be set.
    if threading.current_thread() is not threading.main_thread():
        before.clear()
    # Whoever ends this process means the program, even if nobody handles that here. (None is a
    # handler of C, which Python could not set again.)
    held: dict[int, _Handler] = {
        n: h for n, h in before.items() if callable(h) or (n == signal.SIGTERM and h is not None)
    }
    try:
        for number in held:
            signal.signal(number, lambda number, frame: came.append((number, held[number])))
        yield came
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for number, _ in came:
            signal.raise_signal(number)


def _pass_on(number: int, handler: _Handler, process: subprocess.Popen[bytes]) -> None:
    """Pass a signal on to the program, an interrupt only where the caller's handler raises it."""
    if number == signal.SIGTERM:
        process.send_signal(number)
    elif callable(handler):
        try:
            handler(number, None)
        except KeyboardInterrupt:
            _interrupted(process)

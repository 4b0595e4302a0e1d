"""Run a long child process so that it is watched while it works and never outlives us."""

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

_PATIENCE = 10  # seconds for a process to end by itself, then on SIGTERM


def run_logged(
    command: Sequence[str],
    *,
    log: BinaryIO,
    env: dict[str, str],
    keep_open: int,
    on_line: Callable[[str], None] = lambda line: None,
    on_tick: Callable[[], None] = lambda: None,
) -> int:
    """Run a command, copy its output to the log, and return its exit status.

    The child leads a process group of its own. On Ctrl-C, SIGTERM or SIGHUP the whole group is
    stopped before the exception goes on. ``keep_open`` is a descriptor that the child inherits.
    """
    log.write(f"$ {' '.join(command)}\n".encode())
    log.flush()
    with signals_raise():
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(keep_open,),
        )
        assert process.stdout is not None
        try:
            with process.stdout as output:
                for line in _lines(output.fileno(), log, on_tick):
                    on_line(line)
            return process.wait()
        except BaseException:
            stop_group(process)
            raise


def tail(log: Path, lines: int) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _lines(descriptor: int, log: BinaryIO, on_tick: Callable[[], None]) -> Iterator[str]:
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(timeout=1.0):
                on_tick()
                continue
            chunk = os.read(descriptor, 65536)
            log.write(chunk)
            log.flush()
            if not chunk:
                break
            *complete, pending = (pending + chunk).split(b"\n")
            for line in complete:
                yield line.decode(errors="replace")
    if pending:
        yield pending.decode(errors="replace")


def run_attended(command: Sequence[str], **options: Any) -> int:
    """Run a command that shares our terminal; return its exit status.

    On Ctrl-C it is interrupted too and gets the time to end by itself; on SIGTERM and SIGHUP it is
    ended. It never outlives us.
    """
    with signals_raise(), subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                process.terminate()
            elif not _in_foreground():
                process.send_signal(signal.SIGINT)
            _end(process)
            raise


def _in_foreground() -> bool:
    """Whether what a terminal's Ctrl-C interrupts is us and our children."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def _end(process: subprocess.Popen[Any]) -> None:
    try:
        for harder in (process.terminate, process.kill):
            try:
                process.wait(_PATIENCE)
                return
            except subprocess.TimeoutExpired:
                harder()
    except BaseException:  # a second Ctrl-C
        process.kill()
        raise


def stop_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a session of its own, and all that it started."""
    # SIGTERM first: Ninja and the compilers remove their half-written files on it. (Not SIGINT: a
    # job that a shell started in the background inherits it as ignored.)
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, None)):
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

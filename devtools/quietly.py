"""Running what takes long: with a terminal, or quietly with a sign of life now and then."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onednn_recipe.process import PATIENCE, signals_raise, started

ROOT = Path(__file__).resolve().parents[1]


class DevError(Exception):
    """A command can't go on; the message says what to do."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def say(line: str) -> None:
    """Announce a step."""
    print(f"./dev: {line}", file=sys.stderr, flush=True)


def quietly(command: Sequence[str], cwd: Path = ROOT, /, **env: str) -> None:
    """Run a command; show a sign of life now and then, and its output only if it fails."""
    start = told = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with started(
            command, cwd=cwd, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT
        ) as process:
            while process.poll() is None:
                time.sleep(0.05)
                if time.monotonic() - told >= 20:
                    told = time.monotonic()
                    say(f"  still at it after {told - start:.0f} s")
        if process.returncode:
            output.seek(0)
            raise DevError(f"{_worth_reading(output.read())}\nThis failed: {' '.join(command)}")


def visibly(line: str, command: Sequence[str]) -> None:
    say(line)
    quietly(command)


def _worth_reading(output: str) -> str:
    """The part of a failed command's output that tells why: from its first error on."""
    lines = output.splitlines()
    # A compiler's or linker's error stands before pip's account of it, which may be long.
    errors = [n for n, line in enumerate(lines) if re.search(r"\berror\b|undefined ref", line)]
    first = max(errors[0] - 5, 0) if errors else 0
    shown = lines[first:]
    if len(shown) > 150:
        shown = [*shown[:110], f"[... {len(shown) - 150} lines left out ...]", *shown[-40:]]
    return "\n".join(shown)


def run_attended(command: Sequence[str], **options: Any) -> int:
    """Run a command that shares our terminal; return its exit status.

    On Ctrl-C it is interrupted too and gets the time to end by itself; on SIGTERM and SIGHUP it is
    ended. It never outlives us.
    """
    with signals_raise(), started(command, _interrupted, **options) as process:
        return process.wait()


def _interrupted(process: subprocess.Popen[Any], error: BaseException) -> None:
    if not isinstance(error, KeyboardInterrupt):
        process.terminate()
    elif not _in_foreground():
        process.send_signal(signal.SIGINT)
    _end(process)


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
                process.wait(PATIENCE)
                return
            except subprocess.TimeoutExpired:
                harder()
    except BaseException:  # a second Ctrl-C
        process.kill()
        raise

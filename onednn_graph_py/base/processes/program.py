"""Runs of Python to the end, with their output: `run`."""

import subprocess
import sys
from collections.abc import Mapping

from .ending import ending, last_line, too_long


def run(
    *arguments: str,
    timeout: float,
    environment: Mapping[str, str],
    given: bytes = b"",
    who: str = "the process",
) -> tuple[str, str]:
    """Run Python in another process.

    - `timeout`: seconds after which the process is ended
    - `given`: the standard input, of which the process need not read everything
    - `who`: the name of the process in a failure
    - returns: the standard output, and why it failed; empty if it did not
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            input=given,
            capture_output=True,
            env=environment,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as e:
        return _text(e.stdout), too_long(timeout, who)
    except OSError as e:
        return "", f"no process could be started: {e}"
    failure = ending(done.returncode, who) + last_line(_text(done.stderr))
    return _text(done.stdout), failure if done.returncode else ""


def _text(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "replace")

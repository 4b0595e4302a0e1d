"""What the recipe says to people: lines on stderr, and errors that tell what to do."""

import errno
import sys

_DISK = "the disk is full. Free some space; the same command goes on where it ended."
_MEMORY = (
    "a compiler ended for want of memory. CMAKE_BUILD_PARALLEL_LEVEL=1 has one work at a time; the "
    "same command goes on where it ended."
)
_SAID = {
    "No space left on device": _DISK,
    "Disk quota exceeded": _DISK,
    "Killed signal terminated program": _MEMORY,
    "out of memory allocating": _MEMORY,
    "Cannot allocate memory": _MEMORY,
}
_ERRNO = {errno.ENOSPC: _DISK, errno.EDQUOT: _DISK, errno.ENOMEM: _MEMORY}


class RecipeError(Exception):
    """The recipe can't go on; the message says why and what to do."""


class UnavailableError(Exception):
    """One source of oneDNN can't be had; the message is the reason, in one line."""


def say(line: str) -> None:
    """Print one line for the person who waits (stdout stays free for results)."""
    print(f"oneDNN: {line}", file=sys.stderr, flush=True)


def lacking(output: str) -> str | None:
    """What a command that failed lacked, if its output says so: a sentence instead of a log."""
    return next((lack for sign, lack in _SAID.items() if sign in output), None)


def lacked_by(error: OSError) -> str | None:
    """What the system lacked when it refused something."""
    return _ERRNO.get(error.errno or 0)

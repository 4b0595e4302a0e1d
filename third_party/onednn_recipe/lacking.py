"""What a build lacked, by what compilers and the system say: a sentence instead of their log."""

import errno

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


def lacking(output: str) -> str | None:
    """What a command that failed lacked, if its output says so."""
    return next((lack for sign, lack in _SAID.items() if sign in output), None)


def lacked_by(error: OSError) -> str | None:
    """What the system lacked when it refused something."""
    return _ERRNO.get(error.errno or 0)

"""Text files that are written as a whole: `write_whole`."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of UTF-8, so that one that is interrupted leaves what was there before.

    A pipe, a device, or a file in a folder that can't be written to, is written to as it is.

    Raises
    ------
    OSError
        The file can't be written.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    folder, name = os.path.split(target)
    special = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    if special or not _replaceable(target, mode) or not os.access(folder, os.W_OK):
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        return
    partial = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        if mode is not None:
            os.chmod(partial, stat.S_IMODE(mode))
        os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _replaceable(target: str, mode: int | None) -> bool:
    """Whether a new file may take the place: of none, or of a regular one that we could write."""
    if mode is None:
        return True
    return stat.S_ISREG(mode) and os.access(target, os.W_OK)

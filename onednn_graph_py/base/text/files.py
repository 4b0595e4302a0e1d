"""Files that are read within a limit, and files that are written as a whole."""

import contextlib
import os
import secrets
import stat
from collections.abc import Container, Iterable, Iterator
from typing import BinaryIO

from ..errors import InvalidArgumentsError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class Unreadable(InvalidArgumentsError):
    """Raised for a path that is no regular file, or for one that is too large."""


@contextlib.contextmanager
def open_limited(
    path: str | os.PathLike[str], limit: int, *, owners: Container[int] | None = None
) -> Iterator[BinaryIO]:
    """Open a regular file of at most so many bytes.

    - `owners`: the users whose files are read; all by default
    - raises `Unreadable`: it is not a regular file, belongs to another user, or is too large
    - raises `OSError`: it can't be opened
    """
    if "\0" in os.fspath(path):
        raise Unreadable(f"{path!r}: a path can't contain NUL")
    # Opening a pipe would wait until another process writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((what for test, what in _KINDS if test(status.st_mode)), "something else")
            raise Unreadable(f"expected a file, got {kind}")
        if owners is not None and status.st_uid not in owners:
            raise Unreadable(f"it belongs to user {status.st_uid}")
        _check_size(status.st_size, limit)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def read_limited(
    path: str | os.PathLike[str], limit: int, *, owners: Container[int] | None = None
) -> bytes:
    """Read what `open_limited` opens, which takes and raises the same."""
    with open_limited(path, limit, owners=owners) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(size + 1)
        if len(data) > size:  # the file has grown, or is one of /proc
            data += file.read(limit + 1 - len(data))
    _check_size(len(data), limit)
    return data


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Unreadable(f"too large: {size} bytes, at most {limit} are read")


def error_text(error: Exception) -> str:
    """Return an error's message; for one about a file the path and what is wrong, no number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def write_whole(path: str | os.PathLike[str], contents: str | Iterable[bytes | memoryview]) -> None:
    """Write a file, text as UTF-8, so that one that is interrupted leaves what was there before.

    A pipe, a device, or a file in a folder that can't be written to, is written to as it is.
    """
    parts: Iterable[bytes | memoryview] = (
        [contents.encode()] if isinstance(contents, str) else contents
    )
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    folder, name = os.path.split(target)
    special = os.path.abspath(path).startswith(("/dev/", "/proc/"))
    if mode is not None:  # a new file takes the place only of a regular one that we could write
        special = special or not (stat.S_ISREG(mode) and os.access(target, os.W_OK))
    if special or not os.access(folder, os.W_OK):
        with open(path, "wb") as file:
            file.writelines(parts)
        return
    partial = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "xb") as file:
            file.writelines(parts)
        if mode is not None:
            os.chmod(partial, stat.S_IMODE(mode))
        os.replace(partial, target)
    except BaseException as e:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        if isinstance(e, OSError):
            e.filename = os.fspath(path)  # which one knows, other than that of the partial file
        raise

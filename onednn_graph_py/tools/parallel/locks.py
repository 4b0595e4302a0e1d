"""Locks on CPU numbers among all processes of a user on a machine.

They are POSIX record locks: a byte of a file for each CPU. The kernel releases them when a process
ends, however it ends, and a forked process has none of its parent's. A process must open the file
once only, because closing any descriptor of it releases all.

The file is in the package's cache folder, which may lie on a file system that machines share. So it
has the name of the machine's current boot.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...base.text.owners import make_folders
from ...machine.store import folder

GUARD = 1 << 20  # the byte that a process locks while it chooses: more than there are CPUs

PATIENCE = 10.0  # seconds to wait for others that choose


class CpuLocks:
    """Locks that this process has. Calls from several threads must not overlap."""

    def __init__(self) -> None:
        self._file: int | None = None
        self._taken: set[int] = set()

    @contextlib.contextmanager
    def choosing(self) -> Iterator[None]:
        """Keep other processes from choosing meanwhile.

        It raises OSError if the file can't be made or locked, its folder is not private, or another
        process chooses for too long.
        """
        end = time.monotonic() + PATIENCE
        while True:
            if self._file is None:
                self._file = _opened()
            while not _lock(self._file, GUARD):
                if time.monotonic() > end:
                    self._close_if(True)
                    raise TimeoutError(errno.ETIMEDOUT, f"{_place()} is locked for {PATIENCE} s")
                time.sleep(0.002)
            if _is_current(self._file):
                break
            self._close_if(True)  # the last process that used it has removed it
        try:
            yield
        finally:
            if not self._taken and _lock(self._file, 0, GUARD):  # nobody has a CPU
                with contextlib.suppress(OSError):
                    _place().unlink()
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, GUARD)
            self._close_if(not self._taken)

    def take(self, numbers: Iterable[int]) -> set[int]:
        """Lock CPUs; return those that no other process has locked."""
        assert self._file is not None
        made = set()
        for number in numbers:
            if _lock(self._file, number):
                made.add(number)
                self._taken.add(number)
        return made

    def keep(self, numbers: Iterable[int]) -> None:
        """Unlock all but these CPUs."""
        assert self._file is not None
        for number in self._taken.difference(numbers):
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)
            self._taken.remove(number)

    def forget(self) -> None:
        """Close the file, which unlocks all CPUs; not those of the process that forked this one."""
        self._taken.clear()
        self._close_if(True)

    def _close_if(self, closes: bool) -> None:
        if closes and self._file is not None:
            file, self._file = self._file, None
            os.close(file)


def _place() -> Path:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = os.uname().nodename
    return folder() / "cores" / boot


def _opened() -> int:
    """Open the file, where nobody else can have put another."""
    place = _place()
    make_folders(place.parent.parent)
    with contextlib.suppress(FileExistsError):
        place.parent.mkdir(0o700)
    where = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(where)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(
                errno.EPERM, "the folder must belong to this user, with mode 700", str(place.parent)
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(place.name, flags, 0o600, dir_fd=where)
    finally:
        os.close(where)


def _is_current(file: int) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(_place(), follow_symlinks=False))
    except FileNotFoundError:
        return False


def _lock(file: int, first: int, count: int = 1) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
    except OSError as e:
        if e.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True

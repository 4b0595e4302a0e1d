"""Whether only this user and root decide what a file holds: `changed_by_others`."""

from __future__ import annotations

import os
import stat

__all__ = ["changed_by_others"]


def changed_by_others(path: str | os.PathLike[str]) -> str:
    """Say who else may replace a file; empty if nobody but this user and root.

    Every folder and link on the way to it counts: whoever may write to one chooses what is found.
    In a sticky folder, such as ``/tmp``, only the owner of what lies there may replace it.
    """
    trusted = {0, os.geteuid(), os.stat("/").st_uid}  # in a container, root may have another number
    left, seen = [os.path.abspath(path), os.path.realpath(path)], set()
    while left:
        place = left.pop()
        if place in seen:
            continue
        seen.add(place)
        folder = os.path.dirname(place)
        left.append(folder)
        try:
            facts = os.lstat(place)
        except FileNotFoundError:
            continue
        if facts.st_uid not in trusted:
            return f"{place} belongs to user {facts.st_uid}"
        if stat.S_ISLNK(facts.st_mode):
            left.append(os.path.abspath(os.path.join(folder, os.readlink(place))))
        elif facts.st_mode & stat.S_IWOTH and not (
            facts.st_mode & stat.S_ISVTX and stat.S_ISDIR(facts.st_mode)
        ):
            return f"all users may write to {place}"
    return ""

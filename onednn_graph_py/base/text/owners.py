"""Whether only this user and root decide what a file holds: `changed_by_others`.

The recipe that builds oneDNN runs this file by itself, where there is no package yet.
"""

import contextlib
import grp
import os
import pwd
import stat
from collections.abc import Collection, Iterator

_MOST_LINKS = 40  # as Linux follows


def changed_by_others(*paths: str | os.PathLike[str]) -> str:
    """Say who else may replace one of these files; empty if nobody but this user and root.

    Every folder and link on the way to it counts: whoever may write to one chooses what is found.
    In a sticky folder, such as ``/tmp``, only the owner of what lies there may replace it.
    """
    trusted = {0, os.geteuid(), os.stat("/").st_uid}  # in a container, root may have another number
    ways = [list(_way(path)) for path in paths]
    ends = {way[-1] for way in ways}
    for place in dict.fromkeys(place for way in ways for place in way):
        try:
            facts = os.lstat(place)
        except OSError:  # not there yet
            continue
        if facts.st_uid not in trusted:
            return f"{place} belongs to user {facts.st_uid}"
        if stat.S_ISLNK(facts.st_mode):  # whose mode says nothing
            continue
        sticky = facts.st_mode & stat.S_ISVTX and stat.S_ISDIR(facts.st_mode)
        who = "" if sticky and place not in ends else _writers(place, facts, trusted)
        if who:
            return f"{who} may write to {place}"
    return ""


def _way(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield what the system passes on the way to a path, links first and where they lead after."""
    names = os.path.join(os.getcwd(), path).split("/")[::-1]
    place, links = "/", 0
    yield place
    while names:
        name = names.pop()
        if name == "..":
            place = os.path.dirname(place)
        elif name not in ("", "."):
            here = os.path.join(place, name)
            yield here
            try:
                target = os.readlink(here)
            except OSError:  # no link
                place = here
                continue
            links += 1
            if links > _MOST_LINKS:
                return
            names += target.split("/")[::-1]
            place = "/" if target.startswith("/") else place


def _writers(place: str, facts: os.stat_result, trusted: Collection[int]) -> str:
    """Return who else may write to what lies at a place: all users, or some."""
    if facts.st_mode & stat.S_IWOTH:
        return "all users"
    if not facts.st_mode & stat.S_IWGRP:
        return ""
    try:
        os.getxattr(place, "system.posix_acl_access")
        return "those in its access control list"
    except OSError:  # it has none
        pass
    try:
        group = grp.getgrgid(facts.st_gid)
        members = {pwd.getpwnam(name).pw_uid for name in group.gr_mem}
    except KeyError:
        return f"group {facts.st_gid}"
    # A user's own group has his name, and nobody else in it.
    users = pwd.getpwall()
    members |= {user.pw_uid for user in users if user.pw_gid == facts.st_gid}
    own = group.gr_name in {user.pw_name for user in users if user.pw_uid in trusted}
    return "" if own and members <= set(trusted) else f"group {group.gr_name}"


def make_folders(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it, to which only this user may write whatever its umask is."""
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        make_folders(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):  # another process has made it
            os.mkdir(folder, 0o755)

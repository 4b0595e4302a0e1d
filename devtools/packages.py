"""Third-party packages of virtual environments, kept in the user's cache for all clones.

A kept environment holds what some requirements bring. A clone's environment is made of hard links
to its files, which takes seconds and no space. The package itself is never kept.
"""

import hashlib
import json
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from onednn_recipe.cache import Cache, read_record, write_record

_KEPT_FOR = 30 * 24 * 3600  # seconds, after which newer releases of packages are looked for

Layers = Sequence[Sequence[str]]
"""Requirements that are installed together, for each time that pip runs."""


class Packages:
    """The kept environments.

    Parameters
    ----------
    cache : pathlib.Path
        The user's cache.
    run : callable
        Says a line to people and runs a command; raises if that fails.
    """

    def __init__(self, cache: Path, run: Callable[[str, Sequence[str]], None]) -> None:
        self._user_cache = Cache(cache)
        self._cache = Cache(cache / "python")
        self._run = run

    def provide(self, environment: Path, layers: Layers) -> None:
        """Give an environment the packages of these layers; what else is in it stays."""
        self._user_cache.check_owner()
        with self._cache.lock():
            self._remove_old()
            _link(self._kept(layers), environment)

    def _kept(self, layers: Layers) -> Path:
        """Return a kept environment, which is made if there is none."""
        facts = json.dumps([sys.version, sys.base_prefix, sysconfig.get_platform(), layers])
        place = self._cache.root / hashlib.sha256(facts.encode()).hexdigest()[:16]
        stamp = _stamp(place)
        if stamp.exists():
            return place
        if layers:
            _link(self._kept(layers[:-1]), place)
            pip = [str(place / "bin" / "python"), "-I", "-m", "pip", "--disable-pip-version-check"]
            line = f"installing {len(layers[-1])} Python packages and what they need, from PyPI"
            self._run(line, [*pip, "install", *layers[-1]])
        else:
            line = f"Python packages are kept for all clones in {self._cache.root}"
            self._run(line, [sys.executable, "-I", "-m", "venv", str(place)])
        write_record(stamp, {"python": sys.version, "requirements": layers})
        return place

    def _remove_old(self) -> None:
        """Remove what has been kept for long, and what was never finished."""
        for place in self._cache.root.iterdir():
            stamp = _stamp(place)
            if place.is_dir():
                finished = stamp.stat().st_mtime if stamp.exists() else 0
                if time.time() - finished > _KEPT_FOR:
                    stamp.unlink(missing_ok=True)
                    shutil.rmtree(place)


def _stamp(place: Path) -> Path:
    """What says that a kept environment is complete; it is written last."""
    return place.with_suffix(".json")


def _link(source: Path, target: Path) -> None:
    """Let an environment hold the files of another one, and nothing more of an earlier such."""
    listing = target / "linked.json"
    before = set((read_record(listing) or {}).get("paths", ()))
    found = sorted(path for path in source.rglob("*") if path != source / listing.name)
    paths = {str(path.relative_to(source)) for path in found}
    target.mkdir(parents=True, exist_ok=True)
    # Both until this is done: the next command goes on where this one is interrupted.
    write_record(listing, {"paths": sorted(before | paths)})
    # Whole folders first, with what Python has compiled into them.
    for gone in sorted(before - paths):
        path = target / gone
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in found:
        _link_one(path, target / path.relative_to(source), source, target)
    write_record(listing, {"paths": sorted(paths)})


def _link_one(path: Path, copy: Path, source: Path, target: Path) -> None:
    """Make a file what it is elsewhere, if it is not yet: others may use it at this moment."""
    if path.is_symlink():
        if not (copy.is_symlink() and copy.readlink() == path.readlink()):
            copy.unlink(missing_ok=True)
            copy.symlink_to(path.readlink())
    elif path.is_dir():
        copy.mkdir(exist_ok=True)
    elif path.parent == source / "bin" and str(source).encode() in path.read_bytes():
        script = _moved(path.read_bytes(), source, target)
        if not (copy.exists() and copy.read_bytes() == script):
            copy.unlink(missing_ok=True)
            copy.write_bytes(script)
            shutil.copystat(path, copy)
    elif not (copy.exists() and copy.samefile(path)):
        copy.unlink(missing_ok=True)
        try:
            os.link(path, copy)
        except OSError:  # the cache lies on another file system
            shutil.copy2(path, copy)


def _moved(text: bytes, source: Path, target: Path) -> bytes:
    """Return a script of one environment as that of another one."""
    first, line_end, rest = text.partition(b"\n")
    if first.startswith(f"#!{source}/bin/python".encode()):
        # A shell takes paths with spaces, and longer ones, than the kernel does after `#!`.
        first = f"#!/bin/sh\n'''exec' \"{target}/bin/python\" \"$0\" \"$@\"\n' '''".encode()
    return (first + line_end + rest).replace(str(source).encode(), str(target).encode())

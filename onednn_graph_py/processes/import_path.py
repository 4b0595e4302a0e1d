"""Where helper processes import from: `import_path`."""

from __future__ import annotations

import os
import sys

__all__ = ["import_path"]

_PACKAGE = __name__.partition(".")[0]
_NEEDED = ("os", "_ctypes", "numpy", _PACKAGE)  # wherever they lie, also in the current folder


def import_path(module: str = _PACKAGE) -> list[str]:
    """Return `sys.path` without the current folder, which may be anybody's.

    A file ``signal.py`` there, or one of any name that a helper process imports, would run in it.
    The folders of `module`, of this package and of what that needs come last if they are not among
    the others.
    """
    here = os.stat(".")
    elsewhere = [
        entry for entry in sys.path if isinstance(entry, str) and not _is_folder(entry, here)
    ]
    homes = [home for name in (*_NEEDED, module) for home in _homes(name)]
    return list(dict.fromkeys([*elsewhere, *homes]))


def _is_folder(entry: str, folder: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(entry or "."), folder)
    except (OSError, ValueError):
        return False


def _homes(name: str) -> list[str]:
    """Return the folder that a loaded module's topmost package was found in."""
    found = sys.modules.get(name.partition(".")[0])
    places = [*getattr(found, "__path__", ())] or [getattr(found, "__file__", None)]
    return [os.path.dirname(os.path.abspath(place)) for place in places[:1] if place]

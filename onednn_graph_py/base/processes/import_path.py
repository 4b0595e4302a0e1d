"""Where helper processes import from: `import_path`."""

import os
import sys
from importlib.util import find_spec

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
    """Return the folder that a module's topmost package is found in."""
    top = name.partition(".")[0]
    module = sys.modules.get(top)
    if module is not None:
        file = getattr(module, "__file__", None)
    else:
        spec = find_spec(top)  # which runs nothing
        file = spec.origin if spec is not None and spec.has_location else None
    if file is None:
        return []
    home, leaf = os.path.split(os.path.abspath(file))
    return [os.path.dirname(home) if leaf.startswith("__init__.") else home]

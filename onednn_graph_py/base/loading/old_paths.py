"""Imports under the paths that public modules had before 0.1: they work, and warn.

``import onednn_graph_py.errors`` gives the module `onednn_graph_py.base.errors` itself, so each
class exists once. The attributes, such as ``onednn_graph_py.errors``, stay without a warning.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    **{m: f"base.{m}" for m in ("dtypes", "errors", "ocl_interop", "sycl_interop")},
    **{m: f"tools.{m}" for m in ("capture", "export", "parallel", "replay", "selftest")},
    "shrinking": "tools.shrinking",
    "regions": "frontends",
    "filling": "model.checking.filling",
    "verify": "model.checking.verify",
}
"""The module of each old path, both without the package's name."""

_PACKAGE = __name__.partition(".")[0]


class _OldPaths(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, *inner = fullname.split(".")
        moved = package == _PACKAGE and inner[:1] and inner[0] in MOVED
        return ModuleSpec(fullname, self) if moved else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        package, old, *inner = spec.name.split(".")
        name = ".".join([package, MOVED[old], *inner])
        message = f"{spec.name} is now {name}; the old path goes with version 0.2"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = import_module(name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Python has given the module the old path's spec.
        old_path = module.__spec__
        assert old_path is not None
        module.__spec__ = old_path.loader_state


sys.meta_path.insert(0, _OldPaths())

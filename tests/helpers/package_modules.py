"""The modules of the package that can be imported here."""

import importlib.util
import pkgutil

import onednn_graph_py as og

_OF_ONNX = ("onnx", "onnx_ir")
FRONT_ENDS = {"torch": ("torch",), "onnx": _OF_ONNX}
"""Packages that import frameworks, which need not be installed."""


def absent() -> tuple[str, ...]:
    """The packages whose framework is not installed."""
    return tuple(
        f"onednn_graph_py.{name}"
        for name, needed in FRONT_ENDS.items()
        if any(importlib.util.find_spec(n) is None for n in needed)
    )


def module_names() -> list[str]:
    """The names of all modules below the package, but for programs and absent frameworks."""
    found = pkgutil.walk_packages(og.__path__, "onednn_graph_py.")
    names = [module.name for module in found if not module.name.endswith(".__main__")]
    left_out = tuple(f"{name}." for name in absent())
    return [n for n in names if not f"{n}.".startswith(left_out)]

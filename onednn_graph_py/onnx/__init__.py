"""ONNX models with oneDNN: ``onednn_graph_py.onnx.load("model.onnx")``.

The names below are imported when they are first used, so that the command line can tell what is
missing where onnx is not installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..base.text.names import needs

if TYPE_CHECKING:
    from .file_model import load
    from .model import OnnxModel
    from .report import OnnxReport

__all__ = ["OnnxModel", "OnnxReport", "load"]

_HOMES = {"OnnxModel": "model", "OnnxReport": "report", "load": "file_model"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module(home, f"onnx.{name}"), name)


def module(name: str, what: str) -> Any:
    """Import a module of this folder, which may need onnx for what is named."""
    try:
        return import_module(f".{name}", __name__)
    except ModuleNotFoundError as e:
        if e.name not in ("onnx", "onnx_ir"):
            raise
        raise needs(what, e.name, "onnx") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""ONNX models with oneDNN: ``onednn_graph_py.onnx.load("model.onnx")``.

The names below are imported when they are first used, so that the command line can tell what is
missing where onnx is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from .islands import module

    return getattr(module(home, f"onnx.{name}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

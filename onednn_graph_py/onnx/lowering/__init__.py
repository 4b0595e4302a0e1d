"""Lowerings of ONNX's ops into a `GraphBuilder`."""

from __future__ import annotations

import importlib
import pkgutil

from .table import LOWERINGS, Call, NotLowered

__all__ = ["LOWERINGS", "Call", "NotLowered"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

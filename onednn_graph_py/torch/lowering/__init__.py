"""Lowerings of torch's ops into a `GraphBuilder`."""

from . import (  # noqa: F401  # which fill the table
    elementwise,
    normalizations,
    products,
    quantization,
    shapes,
)
from .table import LOWERINGS, Lowering, NotLowered

__all__ = ["LOWERINGS", "Lowering", "NotLowered"]

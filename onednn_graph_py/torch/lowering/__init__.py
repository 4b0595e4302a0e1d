"""Lowerings of torch's ops into a `GraphBuilder`."""

from . import elementwise, layers, normalizations, pooling, products, quantization, shapes
from .table import LOWERINGS, Lowering, NotLowered

__all__ = [
    "LOWERINGS",
    "Lowering",
    "NotLowered",
    "elementwise",
    "layers",
    "normalizations",
    "pooling",
    "products",
    "quantization",
    "shapes",
]

"""How torch's ops are added to a `GraphBuilder`."""

from . import elementwise, normalizations, pooling, products, quantization, shapes
from .table import LOWERINGS, Lowering, NotLowered

__all__ = [
    "LOWERINGS",
    "Lowering",
    "NotLowered",
    "elementwise",
    "normalizations",
    "pooling",
    "products",
    "quantization",
    "shapes",
]

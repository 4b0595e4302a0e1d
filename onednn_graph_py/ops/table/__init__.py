"""The operation table: a row for each op of oneDNN Graph up to 3.13, by family.

A new op needs only a new row here and a function in ``reference/``.
"""

from collections.abc import Mapping
from types import MappingProxyType

from ..schema import OpSchema
from . import elementwise, movement, normalization, products, windows

__all__ = ["OPS"]

_FAMILIES = (elementwise, products, windows, normalization, movement)

OPS: Mapping[str, OpSchema] = MappingProxyType(
    {row.kind: row for family in _FAMILIES for row in family.ROWS}
)
"""Every op by its kind, e.g. ``OPS["Convolution"]``."""

"""The ops of oneDNN Graph: a table of their inputs, outputs and attributes, and checks of uses.

``ops.Convolution`` is the row of Convolution in the one table; ``help(ops.Convolution)`` shows it,
and a call infers its outputs from given inputs.

>>> from onednn_graph_py import ops
>>> ops.MatMul(((8, 64), "f32"), ((10, 64), "f32"), transpose_b=True)
(TensorSpec(shape=(8, 10), dtype='f32'),)
>>> ops.check("MatMul", [((8, 64), "f32"), ((65, 10), "f32")])
Traceback (most recent call last):
onednn_graph_py.InvalidShapeError: op (MatMul): input 1 (weights) must have dim 0 \
equal to 64 (input 0's columns), got 65x10
"""

from typing import TYPE_CHECKING

from .check import check
from .lookup import overview
from .row import Attribute, Change, Port
from .schema import OpSchema
from .table import OPS
from .tensor_spec import TensorSpec

__all__ = ["OPS", "Attribute", "Change", "OpSchema", "Port", "TensorSpec", "check", "overview"]

if TYPE_CHECKING:

    def __getattr__(kind: str) -> OpSchema: ...

else:
    globals().update(OPS)
    __all__ += list(OPS)

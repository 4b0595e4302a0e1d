"""Classes for methods of graphs and models that later layers define and `methods.py` attaches.

`attached_methods.pyi` types them; ``./dev stubs`` writes it from the functions.
"""

import operator
from typing import Any

from numpy.lib.mixins import NDArrayOperatorsMixin

__all__ = ["ArrayMethods", "GraphMethods", "ModelMethods"]


class ArrayMethods(NDArrayOperatorsMixin):
    """Methods of a `Value`; its operators call NumPy's functions."""

    __slots__ = ()


def _in_place(name: str) -> Any:
    plain = getattr(operator, f"__{name}__")

    def method(self: Any, other: Any) -> Any:
        result = plain(self, other)
        # An input's array is the caller's: a new value, as for Python's numbers.
        return result if self.producer is None else self.builder.overwritten(self, result)

    return method


for _name in (
    "add", "and", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub",
    "truediv", "xor",
):  # fmt: skip
    setattr(ArrayMethods, f"__i{_name}__", _in_place(_name))


class GraphMethods:
    """Methods of a `GraphBuilder`."""

    __slots__ = ()


class ModelMethods:
    """Methods of a `CompiledGraph`."""

    __slots__ = ()

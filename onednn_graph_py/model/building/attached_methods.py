"""Classes for methods of graphs and models that later layers define and `methods.py` attaches.

`attached_methods.pyi` types them; ``./dev stubs`` writes it from the functions.
"""

from numpy.lib.mixins import NDArrayOperatorsMixin

__all__ = ["ArrayMethods", "GraphMethods", "ModelMethods"]


class ArrayMethods(NDArrayOperatorsMixin):
    """Methods of a `Value`; its operators call NumPy's functions."""

    __slots__ = ()


class GraphMethods:
    """Methods of a `GraphBuilder`."""

    __slots__ = ()


class ModelMethods:
    """Methods of a `CompiledGraph`."""

    __slots__ = ()

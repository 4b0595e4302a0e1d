"""Classes for methods of graphs and models that later layers define and `methods.py` attaches.

`attached_methods.pyi` types them; ``./dev stubs`` writes it from the functions.
"""

from __future__ import annotations

__all__ = ["GraphMethods", "ModelMethods"]


class GraphMethods:
    """Methods of a `GraphBuilder`."""

    __slots__ = ()


class ModelMethods:
    """Methods of a `CompiledGraph`."""

    __slots__ = ()

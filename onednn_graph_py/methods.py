"""Attaches functions to graphs and models as methods, so that signature and help exist once.

Errors get the function that asks for oneDNN's reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any

from .building.room_methods import GraphMethods, ModelMethods
from .errors import OneDNNError

__all__ = ["METHODS", "Attached"]


class Attached:
    """A function whose first parameter is the object; it is imported when first used.

    Parameters
    ----------
    module : str
        The module in this package, as in ``from .module import name``.
    name : str
    """

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @property
    def function(self) -> Callable[..., Any]:
        """The function, or class, itself."""
        found: Callable[..., Any] = getattr(import_module(self.module, __package__), self.name)
        return found

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.function if instance is None else MethodType(self.function, instance)


_EVERYWHERE = {
    "diagram": Attached(".inspect", "diagram"),
    "explain": Attached(".explaining", "explain"),
    "_repr_mimebundle_": Attached(".inspect", "repr_mimebundle"),
}

METHODS: dict[type, dict[str, Attached]] = {
    GraphMethods: {
        **_EVERYWHERE,
        "compile": Attached(".running.model", "compile"),
        "save": Attached(".serialization", "save"),
        "to_benchdnn": Attached(".export", "to_benchdnn"),
        "to_cpp": Attached(".export", "to_cpp"),
        "to_json": Attached(".serialization", "to_json"),
        "to_python": Attached(".export", "to_python"),
    },
    ModelMethods: {
        **_EVERYWHERE,
        "verify": Attached(".verify", "verify"),
    },
}
"""The functions that become methods, by class and name."""

for _owner, _methods in METHODS.items():
    for _name, _method in _methods.items():
        setattr(_owner, _name, _method)
OneDNNError.asker = Attached(".refusals", "ask")

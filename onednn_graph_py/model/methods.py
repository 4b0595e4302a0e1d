"""Attaches functions to graphs and models as methods, so that signature and help exist once.

Errors get the function that asks for oneDNN's reasons.
"""

from collections.abc import Callable
from importlib import import_module
from types import MethodType
from typing import Any

from ..base.errors import OneDNNError
from .building.attached_methods import ArrayMethods, GraphMethods, ModelMethods

_PACKAGE = __name__.partition(".")[0]


class Attached:
    """A module's function, whose first parameter is the object; it is imported when first used."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    @property
    def function(self) -> Callable[..., Any]:
        """The function, or class, itself."""
        found: Callable[..., Any] = getattr(import_module(f"{_PACKAGE}.{self.module}"), self.name)
        return found

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.function if instance is None else MethodType(self.function, instance)


_EVERYWHERE = {
    "diagram": Attached("tools.inspect", "diagram"),
    "explain": Attached("tools.explaining", "explain"),
    "_repr_mimebundle_": Attached("tools.inspect", "repr_mimebundle"),
}

_PROTOCOLS = "model.building.array_protocols"
_ARRAY = [
    "all", "any", "argmax", "argmin", "argsort", "astype", "clip", "copy", "cumprod", "cumsum",
    "diagonal", "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "std",
    "sum", "swapaxes", "take", "trace", "var",
]  # fmt: skip

METHODS: dict[type, dict[str, Attached]] = {
    ArrayMethods: {
        "__array_ufunc__": Attached(_PROTOCOLS, "ufunc_called"),
        "__array_function__": Attached(_PROTOCOLS, "function_called"),
        "__array_namespace__": Attached("model.building.array_namespace", "namespace_of"),
        "_instead": Attached(_PROTOCOLS, "instead"),
        "as_numpy": Attached(_PROTOCOLS, "op_called"),
        "_taken": Attached(_PROTOCOLS, "taken"),
        **{name: Attached(_PROTOCOLS, name) for name in _ARRAY},
    },
    GraphMethods: {
        **_EVERYWHERE,
        "compile": Attached("model.running.model", "compile"),
        "save": Attached("serialization", "save"),
        "to_benchdnn": Attached("tools.export", "to_benchdnn"),
        "to_cpp": Attached("tools.export", "to_cpp"),
        "to_json": Attached("serialization", "to_json"),
        "to_python": Attached("tools.export", "to_python"),
    },
    ModelMethods: {
        **_EVERYWHERE,
        "save": Attached("serialization.model_file", "save"),
        "verify": Attached("model.checking.verify", "verify"),
    },
}
"""The functions that become methods, by class and name."""

for _owner, _methods in METHODS.items():
    for _name, _method in _methods.items():
        setattr(_owner, _name, _method)
OneDNNError.asker = Attached("base.refusals", "ask")

"""Ops that several blocks are made of."""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ..model.building.builder import GraphBuilder
from ..model.building.value import Value

ACTIVATIONS = {
    "elu": "Elu",
    "gelu": "GELU",
    "hard_swish": "HardSwish",
    "mish": "Mish",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
}
ACTIVATION_ATTRS: dict[str, dict[str, Any]] = {"Elu": {"alpha": 1.0}}


_P = ParamSpec("_P")
_T = TypeVar("_T", bound=Value | tuple[Value, ...])
_MADE: WeakKeyDictionary[GraphBuilder, dict[Hashable, Any]] = WeakKeyDictionary()


def once(make: Callable[Concatenate[Value, _P], _T]) -> Callable[Concatenate[Value, _P], _T]:
    """Let a function make the same of a value only once, as all layers of a model have one mask.

    Keyword arguments, such as names, don't matter. What a front end took back is made anew.
    """

    @wraps(make)
    def kept(x: Value, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        made = _MADE.setdefault(x.builder, {})
        key = (make.__name__, x.id, args)
        found: _T | None = made.get(key)
        values: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
        nodes = x.builder.contents.nodes
        if found is None or any(v.producer not in nodes for v in values):
            found = made[key] = make(x, *args, **kwargs)
        return found

    return kept


def op(
    b: GraphBuilder,
    kind: str,
    *inputs: Any,
    dtype: str | None = None,
    name: str | None = None,
    **attrs: Any,
) -> Value:
    """Add an op by its kind."""
    result: Value = b.add_op(kind, inputs, attrs, dtype=dtype, name=name)
    return result


def part(name: str | None, part: str) -> str | None:
    """Return the name of an inner op of a named block."""
    return f"{name}/{part}" if name else None


def reshape(x: Value, shape: Sequence[int], name: str | None) -> Value:
    """Add a StaticReshape; of two unknown dims the first may be that of `x`."""
    kept = shape.count(-1) > 1 and shape[0] == (x.shape or (0,))[0] == -1
    dims = (0, *shape[1:]) if kept else tuple(shape)
    return op(x.builder, "StaticReshape", x, shape=dims, special_zero=kept, name=name)


def activated(x: Value, activation: str | None, name: str | None) -> Value:
    """Return the activation of `x`, made by an op named `name`."""
    b = x.builder
    if activation is None:
        return x
    if activation == "silu":
        gate = op(b, "Sigmoid", x, name=part(name, "sigmoid"))
        return op(b, "Multiply", x, gate, name=name)
    kind = ACTIVATIONS[activation]
    return op(b, kind, x, name=name, **ACTIVATION_ATTRS.get(kind, {}))

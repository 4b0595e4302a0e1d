"""The methods of builders and values: one for each op of the table, in snake_case.

`op_methods.pyi` types them; ``./dev stubs`` writes it from the table.
"""

from __future__ import annotations

import difflib
import inspect
import re
import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from ...base.errors import InvalidArgumentsError
from ...ops.describe import signature, text
from ...ops.schema import OpSchema
from ...ops.table import OPS
from ...ops.terms import label_of
from .attached_methods import GraphMethods

__all__ = ["BuilderMethods", "OpMethods", "ValueMethods", "method_name", "method_signature"]

# Words that contain capital letters in oneDNN's names.
_WORDS = (("ReLU", "Relu"), ("GELU", "Gelu"), ("MatMul", "Matmul"), ("SoftMax", "Softmax"))
_MORE_WORDS = (("SoftPlus", "Softplus"), ("RMSNorm", "RmsNorm"), ("PRelu", "Prelu"))


def method_name(kind: str) -> str:
    """Name the method of an op kind: ``leaky_relu``, ``matmul``, ``conv_transpose``."""
    for word, single in (*_WORDS, *_MORE_WORDS):
        kind = kind.replace(word, single)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def method_signature(schema: OpSchema) -> inspect.Signature:
    """Return a method's parameters: the op's ports and attributes, ``dtype`` and ``name``."""
    of_table = signature(schema).parameters.values()
    after = [
        inspect.Parameter("dtype", inspect.Parameter.KEYWORD_ONLY, default=None),
        inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None),
    ]
    taken = {p.name for p in of_table}
    return inspect.Signature([*of_table, *(p for p in after if p.name not in taken)])


_PARAMETERS = """

Further parameters
------------------
dtype : str, optional
    The output's data type, if the inputs don't determine it.
name : str, optional
    The op's name in messages and explanations.
"""


def _method(owner: type[OpMethods], kind: str, schema: OpSchema) -> Callable[..., Any]:
    attributes = {a.name for a in schema.attributes}
    variadic = bool(schema.inputs) and schema.inputs[-1].variadic
    own = [*method_signature(schema).parameters.values()]
    if schema.inputs and not variadic:
        del own[: owner._leading_inputs]
    # The names of the inputs that a caller passes, in order.
    ports = [p.name for p in own if p.name not in attributes][:-2]

    def method(self: OpMethods, *inputs: Any, **given: Any) -> Any:
        dtype, name = given.pop("dtype", None), given.pop("name", None)
        if variadic:
            if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
                inputs = tuple(inputs[0])  # as NumPy and torch take them
            return self.add_op(kind, inputs, given, dtype=dtype, name=name)
        if self._leading_inputs and len(inputs) > len(ports):
            return self.as_numpy(kind, inputs, given, dtype=dtype, name=name)
        values = list(inputs)
        label = label_of(kind, name or "")
        for i, port in enumerate(ports):
            if port not in given:
                continue
            if i < len(inputs):
                raise TypeError(f"{label}: {port} is given twice, by position and by name")
            values += [None] * (i + 1 - len(values))
            values[i] = given.pop(port)
        for unknown in given.keys() - attributes:
            near = difflib.get_close_matches(unknown, ports, n=1)
            if near and not difflib.get_close_matches(unknown, attributes, n=1):
                raise TypeError(f"{label}: no input {unknown!r}, did you mean {near[0]!r}?")
        while values and values[-1] is None:
            values.pop()
        for port, value in zip(ports, values, strict=False):
            if value is None:
                raise TypeError(f"{label}: {port} is missing, and later inputs are given")
        return self.add_op(kind, values, given, dtype=dtype, name=name)

    method.__name__ = method_name(kind)
    method.__qualname__ = f"{owner.__name__}.{method.__name__}"
    method.__doc__ = text(schema) + _PARAMETERS
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY), *own]
    )
    return method


class _Unmade:
    """The method of an op until somebody asks for it; to make all of them takes 30 ms."""

    def __init__(self, owner: type[OpMethods], kind: str, schema: OpSchema) -> None:
        self._given = (owner, kind, schema)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = _method(*self._given)
        setattr(self._given[0], made.__name__, made)
        return made if instance is None else MethodType(made, instance)


class OpMethods:
    """The base of classes with a method for each op."""

    __slots__ = ()

    # The number of inputs before those that a caller passes.
    _leading_inputs = 0

    def add_op(
        self,
        kind: str,
        inputs: Sequence[Any],
        attrs: dict[str, Any],
        *,
        dtype: str | None,
        name: str | None,
    ) -> Any:
        """Add an op of this kind."""
        raise NotImplementedError

    # What ``x.softmax(-1)`` and ``x.round(2)`` mean: NumPy's function, as no input is left over.
    as_numpy = add_op


class BuilderMethods(OpMethods, GraphMethods):
    """The methods of a builder: all inputs are arguments."""

    __slots__ = ("__dict__", "__weakref__")


class ValueMethods(OpMethods):
    """The methods of a value, which is the first input."""

    # A weak reference, as a strong one would keep a graph alive until Python collects the cycle.
    __slots__ = ("_builder",)

    _leading_inputs = 1

    def __init__(self, builder: BuilderMethods) -> None:
        self._builder = weakref.ref(builder)

    @property
    def builder(self) -> BuilderMethods:
        """The builder that made it.

        Raises
        ------
        InvalidArgumentsError
            The builder is gone: keep it as long as you use its values.
        """
        builder = self._builder()
        if builder is None:
            raise InvalidArgumentsError(f"{self!r}: its GraphBuilder is gone")
        return builder


for _owner in (BuilderMethods, ValueMethods):
    for _kind, _schema in OPS.items():
        setattr(_owner, method_name(_kind), _Unmade(_owner, _kind, _schema))

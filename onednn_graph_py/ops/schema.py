"""`OpSchema`: a row of the table that users can call, with help and a signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .call import Call, Operand
from .describe import signature, text
from .inference import infer_outputs
from .row import Row
from .tensor_spec import TensorSpec
from .terms import Shape
from .work import Work


@dataclass(frozen=True, repr=False, eq=False)
class OpSchema(Row):
    """One op; `Row` describes the parameters."""

    infer: Callable[[Call], list[Shape]]
    work: Work
    rules: tuple[Callable[[Call], None], ...] = ()

    def flop(
        self,
        inputs: Sequence[Sequence[int]],
        outputs: Sequence[Sequence[int]],
        attrs: Mapping[str, Any],
    ) -> int:
        """Count the floating-point (or integer) operations of one use.

        Parameters
        ----------
        inputs, outputs : sequence of shapes
            All dims must be known.
        attrs : mapping of str to value
            The attributes that are set, in the library's spelling.

        Examples
        --------
        >>> ops.MatMul.flop([(4, 16), (16, 8)], [(4, 8)], {})
        1024
        """
        read, made = ([Operand("", "", tuple(s)) for s in shapes] for shapes in (inputs, outputs))
        return self.work(Call(self, "", read, made, attrs))

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return text(self)

    @property
    def __signature__(self) -> inspect.Signature:
        return signature(self)

    def __repr__(self) -> str:
        return f"<op {self.kind}{self.__signature__}>"

    def __call__(self, *inputs: Any, **attrs: Any) -> tuple[TensorSpec, ...]:
        """Infer the op's outputs, as `check` does, with the same errors.

        Pass inputs by position or by name, attributes by name.
        """
        others = list(self.__signature__.parameters)[len(inputs) : len(self.inputs)]
        operands = [*inputs, *(attrs.pop(name, None) for name in others)]
        while operands and operands[-1] is None:
            operands.pop()
        return infer_outputs(self, operands, attrs)

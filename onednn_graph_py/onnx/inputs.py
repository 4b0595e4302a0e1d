"""Checks of the inputs of a model: `InputCheck` for one, `Inputs` for all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.arguments import need_integers, need_whole
from ..base.errors import InvalidArgumentsError, InvalidDataTypeError, InvalidShapeError
from ..base.text.names import did_you_mean
from ..model.running.arrays import by_name
from ..ops.terms import shape_text
from .tensors import Shape


@dataclass
class InputCheck:
    """The dims and data type that an input may have; `numpy` is None for what is no tensor."""

    name: str
    dtype: str
    dims: list[Any] | None
    numpy: np.dtype[Any] | None
    is_tensor: bool = True

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.name}: {self.dtype}"
        dims = " x ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype} {dims or '()'}"

    @property
    def is_open(self) -> bool:
        """Whether a call determines a dim."""
        return self.dims is None or any(not isinstance(d, int) for d in self.dims)

    def array(self, model: str, given: Any) -> Any:
        """Return what a call gives as an array."""
        if not self.is_tensor:
            return given
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
        if array.dtype != self.numpy:
            text = self.dtype == "string" and array.dtype.kind in "OUST"
            if not text:
                raise InvalidDataTypeError(
                    f"{model}: input {self.name!r} must have the type {self.numpy} ({self.dtype}), "
                    f"got {array.dtype}"
                )
        self.require(model, array.shape)
        return array

    def require(self, model: str, shape: Shape) -> None:
        """Raise unless a shape fits."""
        dims = self.dims
        if dims is None:
            return
        if len(dims) != len(shape) or any(
            s < 0 or (isinstance(d, int) and d != s) for d, s in zip(dims, shape, strict=True)
        ):
            wanted = " x ".join("?" if d is None else str(d) for d in dims)
            raise InvalidShapeError(
                f"{model}: input {self.name!r} must have the shape {wanted or '()'}, got "
                f"{shape_text(shape)}"
            )

    def shape_for(self, model: str, sizes: Mapping[str, int]) -> Shape:
        """Return the shape for sizes of named dims."""
        made = []
        for dim in self.dims or ():
            if isinstance(dim, int):
                made.append(dim)
            elif dim in sizes:
                made.append(need_whole(f"{model}: dim {dim}", sizes[dim], 0))
            else:
                raise InvalidArgumentsError(
                    f"{model}: input {self.name!r} needs a size for {dim or 'a dim without name'!r}"
                )
        return tuple(made)

    def random(self, generator: np.random.Generator, shape: Shape) -> npt.NDArray[Any]:
        """Return numbers that most models can take: floats around 0, and 0 or 1."""
        if self.numpy is None:
            raise InvalidArgumentsError(f"there are no random numbers for input {self.name!r}")
        is_float = self.dtype in ("f32", "f64", "f16", "bf16")
        try:
            drawn = (
                generator.standard_normal(shape) if is_float else generator.integers(0, 2, shape)
            )
        except ValueError as e:  # also where a dim is 0 and the others are too large
            raise InvalidShapeError(
                f"input {self.name!r}: no array has the shape {shape}: {e}"
            ) from e
        return drawn.astype(self.numpy)


class Inputs:
    """The inputs of a model, in its order; `defaults` are those that have weights as defaults."""

    def __init__(self, model: str, checks: Iterable[InputCheck], defaults: Iterable[str]) -> None:
        self.model = model
        self.checks = {c.name: c for c in checks}
        given = set(defaults)
        self.required = tuple(n for n in self.checks if n not in given)

    def __str__(self) -> str:
        return ", ".join(map(str, self.checks.values()))

    def arrays(
        self, given: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], list[Any]]:
        """Return the names of the inputs that a call gives, in the model's order, and arrays."""
        names, values = self.ordered(given, named)
        return names, [
            self.checks[n].array(self.model, a) for n, a in zip(names, values, strict=True)
        ]

    def ordered(
        self, given: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], list[Any]]:
        """Return the names of what is given, in the model's order, and what is given for them."""
        names = self.required
        first = given[0] if len(given) == 1 else None
        if isinstance(first, Mapping):
            given, named = (), {**first, **named}
        if not named and len(given) == len(names):
            return names, list(given)
        at = by_name(self.model, names, self.checks, given, named)
        order = tuple(n for n in self.checks if n in at)
        return order, [at[n] for n in order]

    def disagreement(self, names: Sequence[str], arrays: Sequence[Any]) -> str:
        """Say which dim of one name has two sizes; "" if none has."""
        seen: dict[str, tuple[int, str]] = {}
        for name, array in zip(names, arrays, strict=True):
            for dim, size in zip(self.checks[name].dims or (), np.shape(array), strict=False):
                first, where = seen.setdefault(dim, (size, name)) if dim else (size, "")
                if first != size:
                    return f"{dim} is {first} in {where}, {size} in {name}"
        return ""

    def shapes_for(self, sizes: Mapping[str, int]) -> dict[str, Shape]:
        """Return the shapes for sizes of named dims."""
        known = {d for n in self.required for d in self.checks[n].dims or () if isinstance(d, str)}
        listed = ", ".join(sorted(known)) or "none"
        for name in sizes:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are: {listed}"
                raise InvalidArgumentsError(f"{self.model}: there is no dim {name!r}{hint}")
        return {n: self.checks[n].shape_for(self.model, sizes) for n in self.required}

    def shapes(self, given: Any) -> tuple[Shape, ...]:
        """Return the shapes of all inputs, in order, of a mapping, a sequence or None."""
        checks = [self.checks[n] for n in self.required]
        if given is None:
            if any(c.is_open for c in checks):
                raise InvalidArgumentsError(
                    f"{self.model}: it has unknown dims; give the shapes of its inputs"
                )
            return tuple(self.shapes_for({}).values())
        if isinstance(given, Mapping):
            _, given = self.ordered((), given)
        made = tuple(need_integers(f"{self.model}: a shape", s) for s in given)
        if len(made) != len(checks):
            raise InvalidArgumentsError(
                f"{self.model}: expected the shapes of {len(checks)} inputs, got {len(made)}"
            )
        for check, shape in zip(checks, made, strict=True):
            check.require(self.model, shape)
        return made

    def random(self, shapes: Any, seed: int) -> dict[str, npt.NDArray[Any]]:
        """Return inputs that most models can take."""
        generator = np.random.default_rng(seed)
        sizes = self.shapes(shapes)
        return {
            n: self.checks[n].random(generator, s)
            for n, s in zip(self.required, sizes, strict=True)
        }

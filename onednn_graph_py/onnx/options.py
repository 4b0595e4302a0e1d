"""The options of `load`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..errors import InvalidArgumentsError

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """What `load` may be told; its documentation says what each option does."""

    fallback: Literal["auto", "onnxruntime", "reference", "error"] = "auto"
    requantize: Literal["merge", "exact"] = "merge"
    dynamic_quantization: Literal["f32", "host"] = "f32"
    max_shapes: int = 32
    threads: int | None = None
    fpmath_mode: Literal["strict", "bf16", "f16", "tf32", "any"] = "strict"
    known_defects: Literal["avoid", "run"] = "avoid"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("fallback", ("auto", "onnxruntime", "reference", "error")),
            ("requantize", ("merge", "exact")),
            ("dynamic_quantization", ("f32", "host")),
            ("fpmath_mode", ("strict", "bf16", "f16", "tf32", "any")),
            ("known_defects", ("avoid", "run")),
        ):
            given = getattr(self, name)
            if given not in allowed:
                near = difflib.get_close_matches(str(given), allowed, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                names = ", ".join(map(repr, allowed))
                raise InvalidArgumentsError(f"{name} must be one of {names}, got {given!r}{hint}")
        for name in ("max_shapes", "threads"):
            given = getattr(self, name)
            if given is None and name == "threads":
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise InvalidArgumentsError(
                    f"{name} must be a whole number, at least 1, got {given!r}"
                )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return the options of keyword arguments.

        Raises
        ------
        InvalidArgumentsError
            There is no such option, or it has no such value.
        """
        names = [f.name for f in fields(cls)]
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
                raise InvalidArgumentsError(f"load has no option {name!r}; {hint}")
        return cls(**given)

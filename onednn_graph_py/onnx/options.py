"""The options of `load`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

from ..errors import InvalidArgumentsError
from ..planning.options import KnownDefects

__all__ = [
    "RTOL",
    "RTOL_INT8",
    "DynamicQuantization",
    "Fallback",
    "FpmathMode",
    "KnownDefects",
    "Most",
    "Options",
    "Requantize",
    "refuse",
]


Most: TypeAlias = tuple[int | None, int | None]
Fallback = Literal["auto", "onnxruntime", "reference", "error"]
Requantize = Literal["merge", "exact"]
DynamicQuantization = Literal["f32", "host"]
FpmathMode = Literal["strict", "bf16", "f16", "tf32", "any"]

RTOL, RTOL_INT8 = 1e-4, 0.05
"""What is allowed beside another runtime, relative to an output's largest number; the second if
anything is computed in 8 bits, as other runtimes round at other places.
"""


@dataclass(frozen=True)
class Options:
    """What `load` may be told; its documentation says what each option does."""

    fallback: Fallback = "auto"
    requantize: Requantize = "merge"
    dynamic_quantization: DynamicQuantization = "f32"
    max_shapes: int = 32
    threads: int | None = None
    fpmath_mode: FpmathMode = "strict"
    known_defects: KnownDefects = "avoid"
    folding_bytes: int | None = None
    folding_work: int | None = None

    def __post_init__(self) -> None:
        for name, choice in (
            ("fallback", Fallback),
            ("requantize", Requantize),
            ("dynamic_quantization", DynamicQuantization),
            ("fpmath_mode", FpmathMode),
            ("known_defects", KnownDefects),
        ):
            allowed = get_args(choice)
            given = getattr(self, name)
            if given not in allowed:
                near = difflib.get_close_matches(str(given), allowed, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                names = ", ".join(map(repr, allowed))
                raise InvalidArgumentsError(f"{name} must be one of {names}, got {given!r}{hint}")
        for name in ("max_shapes", "threads", "folding_bytes", "folding_work"):
            given = getattr(self, name)
            if given is None and name != "max_shapes":
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < 1:
                raise InvalidArgumentsError(
                    f"{name} must be a whole number, at least 1, got {given!r}"
                )

    @property
    def most(self) -> Most:
        """What may be computed of weights before calls, in bytes and work."""
        return self.folding_bytes, self.folding_work


def refuse(unknown: Iterable[str]) -> None:
    """Raise for the first name that is no option.

    Raises
    ------
    InvalidArgumentsError
        There is one.
    """
    names = [f.name for f in fields(Options)]
    for name in unknown:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InvalidArgumentsError(f"load has no option {name!r}; {hint}")

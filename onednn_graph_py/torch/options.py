"""The options of the backend."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from .._core import fpmath_mode
from ..errors import InvalidArgumentsError
from ..planning.options import Check, CompileOptions, KnownDefects

Fallback = Literal["eager", "error"]

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """What ``torch.compile(..., options={...})`` may say.

    Parameters
    ----------
    fallback : str
        ``eager`` leaves to torch what oneDNN can't run; ``error`` raises with a list of it.
    freeze : bool
        Make constants of parameters and buffers. If False they are inputs of each call.
    min_ops : int
        Connected ops that are fewer than these stay in torch, unless one of them is a product, a
        convolution, an attention or a quantization.
    max_shapes : int
        The number of sets of input shapes for which a model stays compiled.
    threads : int, optional
        Threads of a call; torch's number by default.
    fpmath_mode : str
        The smaller types that oneDNN may use to compute f32.
    check : str, optional
        ``verify`` compares each partition once with the reference.
    known_defects : str
        ``avoid`` or ``run``; see `GraphBuilder.compile`.
    """

    fallback: Fallback = "eager"
    freeze: bool = True
    min_ops: int = 2
    max_shapes: int = 32
    threads: int | None = None
    fpmath_mode: str = "strict"
    check: Check = None
    known_defects: KnownDefects = "avoid"

    def __post_init__(self) -> None:
        CompileOptions(known_defects=self.known_defects, check=self.check)
        for name, allowed in (
            ("fallback", get_args(Fallback)),
            ("freeze", (True, False)),
            ("fpmath_mode", tuple(fpmath_mode.__members__)),
        ):
            given = getattr(self, name)
            if given not in allowed:
                names = ", ".join(map(repr, allowed))
                raise InvalidArgumentsError(f"option {name} must be one of {names}, got {given!r}")
        for name, least in (("min_ops", 1), ("max_shapes", 1), ("threads", 1)):
            given = getattr(self, name)
            if given is None and name == "threads":
                continue
            if isinstance(given, bool) or not isinstance(given, int) or given < least:
                raise InvalidArgumentsError(
                    f"option {name} must be a whole number, at least {least}, got {given!r}"
                )

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Return the options of a dict.

        Raises
        ------
        InvalidArgumentsError
            There is no such option, or it has no such value.
        """
        names = [f.name for f in fields(cls)]
        for name in given or {}:
            if name not in names:
                near = difflib.get_close_matches(str(name), names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
                raise InvalidArgumentsError(f"the backend has no option {name!r}; {hint}")
        return cls(**(given or {}))

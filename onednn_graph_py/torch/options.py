"""The options of the backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..base import arguments
from ..base.arguments import FpmathMode
from ..model.planning.options import Check, KnownDefects, Tune

Fallback = Literal["eager", "error"]
Activations = Literal["exact", "int8"]
Nan = Literal["onednn", "torch"]

__all__ = ["Activations", "Options"]


@dataclass(frozen=True)
class Options(arguments.Options):
    """The options of ``torch.compile(..., options={...})``.

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
    activations : str
        ``int8`` rounds what products by weights of 8 and 4 bits read, each token by its largest
        number; ``exact`` only where the module says so.
    nan : str
        ``torch`` leaves to torch what makes numbers of NaN in oneDNN, such as ReLU; ``onednn``
        lets oneDNN fuse it.
    check : str, optional
        ``verify`` compares each partition once with the reference.
    known_defects : str
        ``avoid`` or ``run``; see `GraphBuilder.compile`.
    tune : str
        ``quick``, ``full`` or ``off``; see `GraphBuilder.compile`.
    """

    OWNER: ClassVar[str] = "the backend"
    PREFIX: ClassVar[str] = "option "

    fallback: Fallback = "eager"
    freeze: bool = True
    min_ops: int = 2
    max_shapes: int = 32
    threads: int | None = None
    fpmath_mode: FpmathMode = "strict"
    activations: Activations = "exact"
    nan: Nan = "onednn"
    check: Check = None
    known_defects: KnownDefects = "avoid"
    tune: Tune = "quick"

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Return the options of a dict.

        Raises
        ------
        InvalidArgumentsError
            There is no such option, or it has no such value.
        """
        cls.refuse(given or {})
        return cls(**(given or {}))

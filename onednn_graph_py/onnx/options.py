"""The options of `load`."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from ..base import arguments
from ..base.arguments import FpmathMode as FpmathMode
from ..model.planning.options import KnownDefects as KnownDefects
from ..model.planning.options import Tune as Tune

Most: TypeAlias = tuple[int | None, int | None]
Fallback = Literal["auto", "onnxruntime", "reference", "error"]
Requantize = Literal["merge", "exact"]
DynamicQuantization = Literal["f32", "host"]
Activations = Literal["file", "exact", "int8"]
Islands = Literal["fastest", "fewest"]

RTOL, RTOL_INT8 = 1e-4, 0.05
"""The tolerance against another runtime, relative to an output's largest number; the second if
anything is computed in 8 bits, as other runtimes round at other places.
"""


@dataclass(frozen=True)
class Options(arguments.Options):
    """The options of `load`, whose documentation describes each."""

    OWNER: ClassVar[str] = "load"

    fallback: Fallback = "auto"
    islands: Islands = "fastest"
    requantize: Requantize = "merge"
    dynamic_quantization: DynamicQuantization = "f32"
    activations: Activations = "file"
    max_shapes: int = 32
    memory_limit: int | None = field(default=None, repr=False)  # decides no form
    threads: int | None = None
    fpmath_mode: FpmathMode = "strict"
    known_defects: KnownDefects = "avoid"
    tune: Tune = "quick"
    folding_bytes: int | None = None
    folding_work: int | None = None

    @property
    def most(self) -> Most:
        """The most to compute of weights before calls, in bytes and work."""
        return self.folding_bytes, self.folding_work

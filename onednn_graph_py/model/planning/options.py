"""Options for compiling a graph: `CompileOptions`; the engines that models share."""

from dataclasses import dataclass
from typing import Literal

from ... import _core
from ...base.arguments import Options
from ...base.errors import UnimplementedError
from ...machine.hardware import require

Layout = Literal["auto", "plain"]
Fallback = Literal["reference", "error"]
Policy = Literal["fusion", "debug"]
KnownDefects = Literal["avoid", "run"]
SlowFusions = Literal["avoid", "run"]
Tune = Literal["quick", "full", "off"]
Keep = Literal["auto", "all", "compressed"]
Check = Literal["verify"] | None


@dataclass(frozen=True)
class CompileOptions(Options):
    """The options of a compilation, which `CompiledGraph` documents.

    They are checked: InvalidArgumentsError lists the choices if a value is not among them.
    """

    layout: Layout = "auto"
    fallback: Fallback = "reference"
    policy: Policy = "fusion"
    known_defects: KnownDefects = "avoid"
    slow_fusions: SlowFusions = "avoid"
    fold_constants: bool = True
    check: Check = None
    warn: bool = True
    tune: Tune = "quick"
    keep: Keep = "auto"


_engines: dict[str, _core.engine] = {}


def engine_of(kind: _core.engine.kind) -> _core.engine:
    """Return the engine of a kind that all models share; NoDeviceError if there is no device."""
    if kind.name not in _engines:
        require(kind)
        cpu = kind == _core.engine.kind.cpu
        _engines[kind.name] = _with_huge_pages() if cpu else _core.engine(kind, 0)
    return _engines[kind.name]


def _with_huge_pages() -> _core.engine:
    """Return a CPU's engine whose packed weights lie in huge pages, which are read faster."""
    try:
        allocator = _core.allocator()
    except UnimplementedError:  # SYCL has its own memory
        return _core.engine("cpu", 0)
    return _core.make_engine_with_allocator("cpu", 0, allocator)

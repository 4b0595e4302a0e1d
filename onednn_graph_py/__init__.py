"""oneDNN's Graph API in Python: graphs that oneDNN fuses, compiles and runs.

Write a graph, compile it, and call the model with arrays:

>>> import numpy as np
>>> import onednn_graph_py as og
>>> b = og.GraphBuilder()
>>> x = b.input((2, 3), "f32")
>>> y = b.output((x @ b.constant(np.ones((3, 4), np.float32))).relu())
>>> b.compile()(np.ones((2, 3), np.float32))
array([[3., 3., 3., 3.],
       [3., 3., 3., 3.]], dtype=float32)

``help(og.GraphBuilder)`` and the like describe each of these:

graphs         `GraphBuilder`, `Value`, `trace`, `jit`; `blocks` such as attention
models         `CompiledGraph`, which `GraphBuilder.compile` makes; `fill_inputs`, `assert_fused`
front ends     `torch`, `onnx`, `parallel` (many processes), `frontends` for those of your own
graph files    `load`, `dump`, `serialization`, `capture`, `replay`, `shrinking`, `export`
seeing         `explain`, `diagram`, `profile`, `compare`
what runs      `version`, `devices`, `selftest`, `tuning`; `ops` and `reference` say what
               each op takes and computes
settings       `set_num_threads`, `set_max_cpu_isa`, `cache_info`, `clear_caches`; `dtypes`
errors         `OneDNNError`, from which all are derived; `errors` lists them

`engine`, `op`, `graph` and the rest of ``dir(og)`` mirror ``dnnl::graph``, so that oneDNN's own
documentation reads straight across. ``python -m onednn_graph_py`` lists the commands.
"""

from .base.loading import extension as extension  # first: it decides how the extension is loaded

# isort: split
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _core
from ._core import (
    MAX_NDIMS,
    UNKNOWN_DIM,
    UNKNOWN_NDIMS,
    accumulation_mode,
    allocator,
    bound_execution,
    bound_model,
    compiled_partition,
    cpu_isa,
    cpu_isa_hints,
    engine,
    fpmath_mode,
    get_compiled_partition_cache_capacity,
    get_constant_tensor_cache,
    get_constant_tensor_cache_capacity,
    get_cpu_isa_hints,
    get_default_fpmath_mode,
    get_effective_cpu_isa,
    get_primitive_cache_capacity,
    graph,
    logical_tensor,
    make_engine_with_allocator,
    num_threads,
    op,
    partition,
    set_compiled_partition_cache_capacity,
    set_constant_tensor_cache,
    set_constant_tensor_cache_capacity,
    set_cpu_isa_hints,
    set_default_fpmath_mode,
    set_dump_mode,
    set_jit_dump,
    set_jit_profiling_flags,
    set_jit_profiling_jitdumpdir,
    set_max_cpu_isa,
    set_num_threads,
    set_primitive_cache_capacity,
    set_verbose,
    status,
    stream,
    tensor,
)
from .base import dtypes, errors
from .base.errors import (
    ExecutionError,
    GraphFormatError,
    InvalidArgumentsError,
    InvalidDataTypeError,
    InvalidGraphError,
    InvalidGraphOpError,
    InvalidIndexError,
    InvalidShapeError,
    KnownDefectError,
    MissingNameError,
    NoDeviceError,
    OneDNNError,
    OutOfMemoryError,
    UnimplementedError,
)
from .base.linked import version, version_t
from .base.loading import old_paths as old_paths
from .model import methods as methods

__version__: str = vars(_core)["__version__"]

if TYPE_CHECKING:
    from . import blocks, ops, reference, serialization
    from .base import ocl_interop, sycl_interop
    from .machine.constant_cache import CacheInfo, cache_info, clear_caches
    from .machine.hardware import Device, Devices, devices
    from .model.building.builder import GraphBuilder
    from .model.building.value import Value
    from .model.checking.expected import OutputCheck, Verification
    from .model.checking.filling import fill_inputs
    from .model.running.model import CompiledGraph, Stats, Step, assert_fused
    from .model.running.tracing import jit, trace
    from .serialization import load
    from .tools import capture as capture
    from .tools import export as export
    from .tools import parallel as parallel
    from .tools import replay as replay
    from .tools import selftest as selftest
    from .tools import shrinking as shrinking
    from .tools import tuning as tuning
    from .tools.capture.dump import dump
    from .tools.comparing.compare import compare
    from .tools.comparing.table import Comparison
    from .tools.explaining.explain import explain
    from .tools.explaining.explanation import Explanation
    from .tools.inspect.diagram import Diagram, diagram
    from .tools.inspect.profile import Profile, profile

# The names that are imported when first used, by module; modules are, too.
_LATE = {
    "model.building.builder": ("GraphBuilder",),
    "model.building.value": ("Value",),
    "tools.capture.dump": ("dump",),
    "model.checking.expected": ("OutputCheck", "Verification"),
    "tools.comparing.compare": ("compare",),
    "tools.comparing.table": ("Comparison",),
    "tools.explaining.explain": ("explain",),
    "tools.explaining.explanation": ("Explanation",),
    "model.checking.filling": ("fill_inputs",),
    "machine.hardware": ("Device", "Devices", "devices"),
    "tools.inspect.diagram": ("Diagram", "diagram"),
    "tools.inspect.profile": ("Profile", "profile"),
    "machine.constant_cache": ("CacheInfo", "cache_info", "clear_caches"),
    "model.running.model": ("CompiledGraph", "Stats", "Step", "assert_fused"),
    "model.running.tracing": ("jit", "trace"),
    "serialization": ("load",),
}
# The public modules that lie in another package than this one.
_MODULES = {
    "base": ("ocl_interop", "sycl_interop"),
    "tools": ("capture", "export", "parallel", "replay", "selftest", "shrinking", "tuning"),
}
_MODULE_OF = {name: module for module, names in _LATE.items() for name in names}
_MOVED = {name: f"{package}.{name}" for package, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = f"{__name__}.{_MODULE_OF.get(name) or _MOVED.get(name, name)}"
    try:
        if name.startswith("_"):
            raise ModuleNotFoundError(name=module)
        found = import_module(module)
    except ModuleNotFoundError as e:
        if e.name != module:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    made = getattr(found, name) if name in _MODULE_OF else found
    globals()[name] = made
    return made


# Public as well, but not for a star import.
_PACKAGES = ("onnx", "torch", "frontends", *_MODULES["tools"])


def __dir__() -> list[str]:
    # help() would show each class in full, 11,000 lines; the docstring names them.
    caller = sys._getframe()
    for _ in range(3):  # pydoc asks through `inspect`
        caller = caller.f_back or caller
        if caller.f_globals.get("__name__") == "pydoc":
            return []
    dunder = {name for name in globals() if name.startswith("__")}
    return sorted({*dunder, *__all__, *_PACKAGES})


__all__ = [  # noqa: RUF022 (grouped as oneDNN's documentation is)
    # devices and memory
    "devices",
    "Devices",
    "Device",
    "engine",
    "make_engine_with_allocator",
    "allocator",
    "stream",
    "sycl_interop",
    "ocl_interop",
    "logical_tensor",
    "tensor",
    "UNKNOWN_DIM",
    "UNKNOWN_NDIMS",
    "MAX_NDIMS",
    # graphs
    "op",
    "graph",
    "partition",
    "compiled_partition",
    "bound_execution",
    # models
    "GraphBuilder",
    "Value",
    "CompiledGraph",
    "bound_model",
    "Step",
    "Stats",
    "assert_fused",
    "fill_inputs",
    "Verification",
    "OutputCheck",
    "blocks",
    "trace",
    "jit",
    "num_threads",
    "set_num_threads",
    "cache_info",
    "CacheInfo",
    "clear_caches",
    # files
    "load",
    "dump",
    "serialization",
    # seeing
    "diagram",
    "Diagram",
    "explain",
    "Explanation",
    # operations
    "ops",
    "reference",
    # modes
    "accumulation_mode",
    "fpmath_mode",
    "get_default_fpmath_mode",
    "set_default_fpmath_mode",
    # caches
    "get_compiled_partition_cache_capacity",
    "set_compiled_partition_cache_capacity",
    "get_constant_tensor_cache",
    "set_constant_tensor_cache",
    "get_constant_tensor_cache_capacity",
    "set_constant_tensor_cache_capacity",
    "get_primitive_cache_capacity",
    "set_primitive_cache_capacity",
    # the CPU
    "cpu_isa",
    "cpu_isa_hints",
    "get_effective_cpu_isa",
    "set_max_cpu_isa",
    "get_cpu_isa_hints",
    "set_cpu_isa_hints",
    # oneDNN's version and log
    "version",
    "version_t",
    "set_verbose",
    "profile",
    "Profile",
    "compare",
    "Comparison",
    "set_dump_mode",
    "set_jit_dump",
    "set_jit_profiling_flags",
    "set_jit_profiling_jitdumpdir",
    # errors
    "status",
    "OneDNNError",
    "InvalidArgumentsError",
    "InvalidShapeError",
    "InvalidDataTypeError",
    "InvalidIndexError",
    "NoDeviceError",
    "InvalidGraphError",
    "InvalidGraphOpError",
    "GraphFormatError",
    "UnimplementedError",
    "KnownDefectError",
    "MissingNameError",
    "OutOfMemoryError",
    "ExecutionError",
    # modules
    "dtypes",
    "errors",
]

if "graph_dump_mode" in vars(_core):  # from oneDNN 3.11 on
    graph_dump_mode = vars(_core)["graph_dump_mode"]
    __all__ += ["graph_dump_mode"]

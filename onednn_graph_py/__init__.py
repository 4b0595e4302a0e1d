"""oneDNN's Graph API in Python.

The names below mirror ``dnnl::graph``, so that oneDNN's own documentation reads straight across:

>>> from onednn_graph_py import *
>>> relu = op(0, op.ReLU, "relu")
>>> relu.add_input(logical_tensor(0, logical_tensor.f32, [2, 3], logical_tensor.strided))
>>> relu.add_output(logical_tensor(1, logical_tensor.f32, [2, 3], logical_tensor.strided))
>>> g = graph(engine.cpu)
>>> g.add_op(relu)
<status.success: 0>
>>> g.finalize()
>>> [p.get_ops() for p in g.get_partitions()]
[[0]]
"""

from . import _loader as _loader  # first: it decides how the extension is loaded
from . import dtypes, errors
from ._core import (
    MAX_NDIMS,
    UNKNOWN_DIM,
    UNKNOWN_NDIMS,
    __version__,
    accumulation_mode,
    allocator,
    bound_execution,
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
    set_primitive_cache_capacity,
    set_verbose,
    status,
    stream,
    tensor,
    version,
)
from .errors import *

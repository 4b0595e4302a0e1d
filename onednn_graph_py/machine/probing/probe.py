"""Try ops one by one, in another process.

A kernel that crashes ends the process; the caller then starts another one for the next op.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onednn_graph_py import _core
from onednn_graph_py.base.dtypes import numpy_dtype
from onednn_graph_py.base.errors import OneDNNError
from onednn_graph_py.base.processes import serve
from onednn_graph_py.base.refusals import with_reason
from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.check import check, type_combinations

from ...base.linked import linked_version

_PACKED = ("s4", "u4")


@dataclass(frozen=True)
class Attempt:
    """An op with a choice of data types."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def attempts() -> list[Attempt]:
    """Return all attempts, in a fixed order."""
    version = linked_version()
    return [
        Attempt(kind, inputs, outputs)
        for kind, schema in OPS.items()
        if schema.since <= version
        for inputs, outputs in type_combinations(kind, version)
    ]


def _array(lt: _core.logical_tensor) -> np.ndarray[Any, Any]:
    name = lt.get_data_type().name
    dims = lt.get_dims()
    if name in _PACKED:
        return np.zeros((int(np.prod(dims)) + 1) // 2, np.uint8)
    return np.ones(dims, numpy_dtype(name))


def attempt(a: Attempt, engine: _core.engine, stream: _core.stream) -> tuple[str, str]:
    """Build, partition, compile and run one op; return the outcome and its reason."""
    shapes, attrs = OPS[a.kind].sample
    specs = list(zip(shapes, a.inputs, strict=True))
    made = check(a.kind, specs, attrs, [(None, dtype) for dtype in a.outputs])
    inputs = [_core.logical_tensor(i, d, s, "strided") for i, (s, d) in enumerate(specs)]
    outputs = [
        _core.logical_tensor(100 + i, dtype, spec.shape or (), "strided")
        for i, (spec, dtype) in enumerate(zip(made, a.outputs, strict=True))
    ]
    o = _core.op(0, a.kind, inputs, outputs)
    for name, value in attrs.items():
        o.set_attr(name, value)
    g = _core.graph("cpu")
    try:
        g.add_op(o)
    except OneDNNError as e:
        return "refused", with_reason(e)
    g.finalize()
    (partition,) = g.get_partitions()
    if not partition.is_supported():
        return "unsupported", "oneDNN has no kernel for the op alone"
    try:
        compiled = partition.compile(inputs, outputs, engine)
    except OneDNNError as e:
        return "not compiled", with_reason(e)
    made_lts = [compiled.query_logical_tensor(lt.get_id()) for lt in outputs]
    try:
        compiled.execute(
            stream,
            [_core.tensor(lt, engine, _array(lt)) for lt in inputs],
            [_core.tensor(lt, engine, _array(lt)) for lt in made_lts],
        )
        stream.wait()
    except OneDNNError as e:
        return "not run", str(e)
    return "runs", ""


def main(descriptor: int) -> None:
    """Make the attempts that a connection asks for by their numbers in `attempts`."""
    engine = _core.engine("cpu", 0)
    stream = _core.stream(engine)
    tried = attempts()
    serve(descriptor, lambda number: attempt(tried[number], engine, stream))

"""One op, run by oneDNN as a partition of its own: what the reference is held against."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from graphs import PACKED_TYPES, needs
from op_comparison import compare

import onednn_graph_py as og
from onednn_graph_py.machine import cpu, current
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.reference import call_of, evaluate
from onednn_graph_py.reference.rounding import NUMPY_DTYPES, dtype_name
from onednn_graph_py.safety.table import wrong_result
from onednn_graph_py.tools.selftest.draft import Draft
from onednn_graph_py.tools.selftest.ops import drawn, source

ENGINE = og.engine("cpu", 0)
STREAM = og.stream(ENGINE)

ISA = og.get_effective_cpu_isa().name
# The main data types of kernels.
FLOATS = ("f32", "bf16", "f16")


class Case(NamedTuple):
    """One use of an op."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any]
    outputs: int = 1


def draw(kind: str, seed: int) -> Case:
    """A random use of an op, in f32."""
    d = Draft(kind, seed)
    d.opens, d.most, d.dtype = False, 400, "f32"
    made = drawn(d, kind, source(d, kind))
    node = made[0].producer
    assert node is not None and node.kind == kind
    return Case(kind, tuple(v.shape or () for v in node.inputs), dict(node.attrs), len(made))


def needs_training(dtype: str) -> None:
    """Skip a test where this CPU has no kernels of backward ops for a data type."""
    needs(dtype)
    if dtype != "f32" and not cpu.has(ISA, "avx512"):
        pytest.skip(f"oneDNN uses {ISA} on this CPU, and backward ops in {dtype} need AVX-512")


def _stored(array: np.ndarray) -> np.ndarray:
    """An array as oneDNN has it in memory: two 4-bit integers a byte, the first one low."""
    if dtype_name(array.dtype) not in PACKED_TYPES:
        return array
    nibbles = array.astype(np.int8).view(np.uint8).ravel() & 15
    pairs = np.append(nibbles, np.zeros(nibbles.size % 2, np.uint8)).reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << 4


def run_alone(
    kind: str,
    inputs: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
    outputs: Sequence[tuple[tuple[int, ...], str]],
) -> list[np.ndarray]:
    """Run an op on arrays; `outputs` are shapes and data types.

    Raises
    ------
    UnimplementedError
        oneDNN has no kernel for it here, or not as a partition of its own.
    """
    given = [
        og.logical_tensor(i, dtype_name(a.dtype), a.shape, "strided") for i, a in enumerate(inputs)
    ]
    made = [
        og.logical_tensor(100 + i, dtype, shape, "strided")
        for i, (shape, dtype) in enumerate(outputs)
    ]
    o = og.op(0, kind, given, made)
    for name, value in attrs.items():
        o.set_attr(name, value)
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (partition,) = g.get_partitions()
    if not partition.is_supported():
        raise og.UnimplementedError(f"{kind} is not supported as a partition of its own")
    compiled = partition.compile(given, made, ENGINE)
    results = [np.zeros(shape, NUMPY_DTYPES[dtype]) for shape, dtype in outputs]
    compiled.execute(
        STREAM,
        [og.tensor(lt, ENGINE, _stored(a)) for lt, a in zip(given, inputs, strict=True)],
        [og.tensor(lt, ENGINE, a) for lt, a in zip(made, results, strict=True)],
    )
    STREAM.wait()
    return results


def computed_wrongly(
    kind: str,
    arrays: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
    outputs: Sequence[tuple[tuple[int, ...] | None, str]],
) -> bool:
    """Whether a row of known defects says so of the op alone; tests of these rows show it."""
    b = og.GraphBuilder()
    given = [b.input(a.shape, dtype_name(a.dtype)) for a in arrays]
    b.op(kind, *given, outputs=list(outputs), **attrs)
    return wrong_result(group_of(b.nodes), current()) is not None


def check_agreement(
    kind: str,
    arrays: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
    outputs: Sequence[tuple[tuple[int, ...] | None, str]],
) -> float | None:
    """Run an op and compare all its outputs; return the largest share of what is allowed.

    None if oneDNN has no kernel for it, does not compile it, or is known to compute it wrongly.
    """
    call = call_of(kind, arrays, attrs, outputs)
    if computed_wrongly(kind, arrays, attrs, outputs):
        return None
    try:
        results = run_alone(kind, arrays, attrs, [(o.shape, o.dtype) for o in call.outputs])
    except og.OneDNNError:
        return None
    worst = 0.0
    for i, exact in enumerate(evaluate(call, arrays)):
        found = compare(results[i], exact, call, output=i, inputs=arrays)
        assert found.ok, f"output {i} of {call}: {found}"
        worst = max(worst, found.ratio)
    return worst


def assert_agreement(
    kind: str,
    arrays: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
    outputs: Sequence[tuple[tuple[int, ...] | None, str]],
) -> float:
    """Like `check_agreement`, of what oneDNN must run."""
    worst = check_agreement(kind, arrays, attrs, outputs)
    assert worst is not None
    return worst

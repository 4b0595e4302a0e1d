"""Every documented pattern with an unknown first dim, against the same graph of known shapes."""

import numpy as np
import pytest
from graphs import assert_sums_close

import onednn_graph_py as og
from gallery import PATTERNS, Case, Pattern
from onednn_graph_py.model.checking.filling import fill_inputs

FLOATS = "fV"  # NumPy's and ml_dtypes'


def cases() -> list[tuple[Pattern, Case]]:
    """The first case of each pattern in each set of data types that every CPU computes."""
    found = {}
    for pattern in PATTERNS.values():
        for case in pattern.cases:
            if "16" not in case.dtypes and "f8" not in case.dtypes:
                found.setdefault((pattern.id, case.dtypes), (pattern, case))
    return list(found.values())


def opened(b: og.GraphBuilder, first: int) -> og.GraphBuilder:
    """Copy a graph; inputs whose first dim is `first` get an unknown one."""
    copy = og.GraphBuilder(fpmath_mode=b.fpmath_mode, apply_to_int=b.apply_to_int)
    made = {}
    for v in b.inputs:
        shape = (-1, *v.shape[1:]) if v.shape[:1] == (first,) else v.shape
        made[v.id] = copy.input(shape, v.dtype, name=v.name)
    for v in b.constants:
        made[v.id] = copy.constant(v.data, v.dtype, name=v.name)
    for node in b.nodes:
        inputs = [made[v.id] for v in node.inputs]
        types = [(None, v.dtype) for v in node.outputs]
        out = copy.add_op(node.kind, inputs, dict(node.attrs), outputs=types, name=node.name)
        for v, value in zip(node.outputs, out if isinstance(out, tuple) else (out,), strict=True):
            made[v.id] = value
    copy.output(**{name: made[v.id] for name, v in b.outputs.items()})
    return copy


def compiled(b: og.GraphBuilder) -> og.CompiledGraph:
    """Compile without measuring, which could decide differently for the two graphs."""
    return b.compile(slow_fusions="run", warn=False)


def run(model: og.CompiledGraph, arrays) -> tuple[np.ndarray, ...]:
    made = model(*arrays)
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # some patterns run in parts here
@pytest.mark.parametrize(
    ("pattern", "case"), [pytest.param(p, c, id=f"{p.id}-{c.dtypes}") for p, c in cases()]
)
def test_an_unknown_first_dim_changes_no_result(pattern, case):
    linked = (og.version()["major"], og.version()["minor"])
    if linked < case.needs or case.expected(linked) is None:
        pytest.skip("this oneDNN refuses the pattern")
    alone = pattern.graph(case)
    if any(v.strides is not None for v in alone.inputs):
        pytest.skip("the pattern has strided inputs")
    if any(not v.shape or -1 in v.shape for v in alone.inputs):
        pytest.skip("the pattern has unknown dims, or none")
    first = alone.inputs[0].shape[0]
    try:
        model = compiled(opened(alone, first))
    except og.InvalidShapeError:
        pytest.skip("the pattern fixes its first dim")
    arrays = fill_inputs(alone)
    shapes = [v.shape for v in alone.inputs]
    other = [
        (first + 1, *s[1:]) if s[:1] == (first,) and -1 in v.shape else s
        for s, v in zip(shapes, model.inputs, strict=True)
    ]
    try:
        model.steps(*other)  # the first shapes decide on the partitions
    except og.OneDNNError as e:
        assert isinstance(e, (og.InvalidShapeError, og.InvalidGraphOpError, og.UnimplementedError))
    expected, made = run(compiled(alone), arrays), run(model, arrays)
    for array, right in zip(made, expected, strict=True):
        assert array.dtype == right.dtype
        if array.dtype.kind not in FLOATS or np.array_equal(array, right, equal_nan=True):
            np.testing.assert_array_equal(array, right)
        else:  # oneDNN chose another kernel
            assert_sums_close(array, right, np.abs(right).max() + np.abs(right), right.size)

"""What is refused because oneDNN would crash on it, or read or write out of bounds."""

import math
import re
from contextlib import suppress

import numpy as np
import pytest
from fuzz import Case, Op, Tensor, run_case

import onednn_graph_py as og
from onednn_graph_py.ops import OPS

LINKED = (og.version()["major"], og.version()["minor"])


def case(kind, inputs, outputs, attrs=None, **more):
    """One op over f32 tensors, each a shape or a Tensor."""
    tensors = [
        t if isinstance(t, Tensor) else Tensor(i, dims=t) for i, t in enumerate([*inputs, *outputs])
    ]
    o = Op(kind, tensors[: len(inputs)], tensors[len(inputs) :], attrs or {})
    return Case(0, [o], **more)


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attrs"),
    [
        ("LayerNorm", [(4, 8), (8,), (8,)], (4, 8), {"keep_stats": False}),
        (
            "GroupNorm",
            [(2, 4, 3), (4,), (4,)],
            (2, 4, 3),
            {"groups": 2, "keep_stats": False, "data_format": "NCX"},
        ),
        ("LayerNormBackward", [(4, 8), (4, 8), (4,), (4,), (8,), (8,)], (4, 8), {}),
    ],
)
def test_gamma_and_beta_that_are_not_read_may_be_there(kind, inputs, output, attrs):
    """As in C++."""
    assert run_case(case(kind, inputs, [output], {**attrs, "use_affine": False})) == "executed 1"


def test_a_wrong_shape_between_fused_ops_is_found_behind_unknown_ones():
    middle = Tensor(1, dims=None)
    first = Op("MatMul", [Tensor(0, dims=(4, 8)), Tensor(7, dims=(8, 16))], [middle])
    second = Op("ReLU", [middle], [Tensor(2, dims=(4, 15))])
    outcome = run_case(Case(0, [first, second]))
    assert "output 0 (dst) must have the shape 4x16" in outcome
    assert "(ReLU)" in outcome


@pytest.mark.parametrize(("shape", "data_format"), [((1, 4, 1, 3), "NXC"), ((2, 3, 1), "NCX")])
def test_interpolation_of_one_column_is_refused(shape, data_format):
    spatial = shape[1:-1] if data_format == "NXC" else shape[2:]
    attrs = {"mode": "nearest", "data_format": data_format, "sizes": [5] * len(spatial)}
    assert "innermost spatial dim of 1" in run_case(case("Interpolate", [shape], [None], attrs))
    wider = tuple(2 if d == 1 and i else d for i, d in enumerate(shape))
    assert run_case(case("Interpolate", [wider], [None], attrs)) == "executed 1"


@pytest.mark.parametrize("strides", [None, (8, 24, 1, 7)])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_gradients_of_one_column_are_right(strides, data_format):
    """oneDNN leaves them unwritten, or adds what lies elsewhere, where they have two channels."""
    attrs = {"mode": "nearest", "data_format": data_format, "sizes": [8, 1]}
    refused = "innermost spatial dim of 1"
    shapes = [(3, 2, 4, 1), (3, 2, 8, 1)]
    if data_format == "NXC":
        shapes = [(n, h, w, c) for n, c, h, w in shapes]
        strides = strides and (24, 1, 7, 8)
    case_of = case("InterpolateBackward", shapes, [shapes[0]], attrs)
    assert refused in run_case(case_of)
    b = og.GraphBuilder()
    src, gradient = b.input(shapes[0], "f32"), b.input(shapes[1], "f32", strides=strides)
    b.output(b.op("InterpolateBackward", src, gradient, outputs=[(shapes[0], "f32")], **attrs))
    memory = np.random.default_rng(5).standard_normal(96).astype(np.float32)
    steps = strides or [math.prod(shapes[1][i + 1 :]) for i in range(4)]
    given = np.lib.stride_tricks.as_strided(memory, shapes[1], [4 * n for n in steps])
    axis = 1 if data_format == "NXC" else 2
    made = b.compile(warn=False)(np.zeros(shapes[0], np.float32), given)
    np.testing.assert_allclose(made, np.add.reduceat(given, range(0, 8, 2), axis), rtol=1e-6)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", ["Maximum", "Add"])
def test_a_constant_of_any_layout_is_no_operand_of_a_binary_op(kind, place):
    """oneDNN refuses it, or divides by zero while it compiles."""
    inputs = [Tensor(i, dims=(3, 9)) for i in range(2)]
    inputs[place] = Tensor(place, dims=(3, 9), layout="any", property="constant")
    outcome = run_case(case(kind, inputs, [(3, 9)]))
    assert f"input {place} (src_{place}) must have a strided layout" in outcome


def _slightly_wrong(kind: str):
    """Uses of an op that lack an input or an attribute, or have another value of one."""
    schema = OPS[kind].at(LINKED)
    shapes, attrs = schema.sample
    inputs = [Tensor(i, dims=s) for i, s in enumerate(shapes)]
    outputs = [Tensor(9 + i, dims=None) for i in range(max(schema.counts("outputs"), default=0))]
    others = {
        "string": ["", "nonsense"],
        "s64": [-13, -1, 0, 1 << 40],
        "s64[]": [(), (0,), (-1,) * 13],
    }
    changed = [{**attrs, a.name: v} for a in schema.attributes for v in others.get(a.type, [])]
    changed += [{n: v for n, v in attrs.items() if n != gone} for gone in attrs]
    yield from ((inputs, outputs, c) for c in changed)
    yield from ((inputs[:i], outputs, attrs) for i in range(len(inputs)))
    yield [Tensor(i, dims=None) for i in range(len(inputs))], outputs, attrs


@pytest.mark.parametrize("kind", [k for k, row in OPS.items() if row.since <= LINKED])
def test_the_mirror_judges_any_use_that_nobody_validated(kind):
    """Shape functions read what the table did not check first, so they must get along with it."""
    for inputs, outputs, attrs in _slightly_wrong(kind):
        made = og.op(0, kind, [t.logical() for t in inputs], [t.logical() for t in outputs])
        with suppress(og.OneDNNError, ValueError):
            for name, value in attrs.items():
                made.set_attr(name, list(value) if isinstance(value, tuple) else value)
        with suppress(og.OneDNNError):
            og.graph("cpu").add_op(made, validate=False)


@pytest.mark.parametrize("strides", [(0, 0), (1, 3)])
def test_strides_of_unknown_dims_are_refused_where_known_dims_would_overlap(strides):
    x, y = Tensor(0, dims=(-1, 2)), Tensor(1, dims=(-1, 2), strides=strides)
    told = {0: Tensor(0, dims=(16, 2))}
    found = run_case(Case(0, [Op("ReLU", [x], [y])], told))
    assert re.match("compile: InvalidShapeError: .*keep its elements apart", found)

"""GraphBuilder and Value: ops, operators, names, constants, inputs, outputs, errors, pickles."""

import copy
import gc
import inspect
import itertools
import operator
import pickle
import re
import sys

import ml_dtypes
import numpy as np
import pytest
from graphs import LINKED, python
from op_probes import type_combinations

import onednn_graph_py as og
from onednn_graph_py.base.dtypes import data_type_of, unpack_int4
from onednn_graph_py.model.building.op_methods import BuilderMethods, ValueMethods, method_name
from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.check import check

BF16 = ml_dtypes.bfloat16
X = np.float32([[1.5, -2, 3], [-4, 5, 0.25]])
W = np.float32([[2, 1], [-1, 0.5], [4, -3]])


def run(function, *arrays, **options):
    """What a function of Values makes of arrays, compiled and called."""
    b = og.GraphBuilder()
    b.output(function(*(b.input(a.shape, data_type_of(a.dtype)) for a in arrays)))
    return b.compile(**options)(*arrays)


def line_of_caller():
    """``file.py:12`` of the line that calls this."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


# -- a method for each op


def test_methods_have_the_names_of_the_ops_in_snake_case():
    # The words that a rule for single capitals would take apart.
    expected = {
        "ReLU": "relu",
        "LeakyReLU": "leaky_relu",
        "PReLUBackward": "prelu_backward",
        "GELU": "gelu",
        "MatMul": "matmul",
        "SoftMaxBackward": "softmax_backward",
        "LogSoftmax": "log_softmax",
        "SoftPlus": "softplus",
        "RMSNorm": "rms_norm",
        "ReduceL2": "reduce_l2",
        "ConvTransposeBackwardWeights": "conv_transpose_backward_weights",
        "BatchNormForwardTraining": "batch_norm_forward_training",
        "HardSwish": "hard_swish",
        "TypeCast": "type_cast",
    }
    assert {kind: method_name(kind) for kind in expected} == expected
    names = [method_name(kind) for kind in OPS]
    assert len(set(names)) == len(OPS)
    assert all(re.fullmatch("[a-z][a-z0-9]*(_[a-z][a-z0-9]*)*", name) for name in names)


@pytest.mark.parametrize("owner, others", [(BuilderMethods, set()), (ValueMethods, {"builder"})])
def test_there_is_a_method_for_each_op(owner, others):
    public = {name for name in vars(owner) if not name.startswith("_")}
    assert public == {method_name(kind) for kind in OPS} | others


@pytest.mark.parametrize("owner", [og.GraphBuilder, og.Value])
@pytest.mark.parametrize("kind", OPS)
def test_a_method_shows_the_ports_and_attributes_of_its_op(kind, owner):
    method = getattr(owner, method_name(kind))
    schema = OPS[kind]
    parameters = inspect.signature(method).parameters
    by_name = {p.name for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert by_name == {a.name for a in schema.attributes} | {"dtype", "name"}
    for a in schema.attributes:
        default = inspect.Parameter.empty if a.required else a.default
        assert parameters[a.name].default == default
    # A value is the first input itself, and one of several that a variadic op takes.
    itself = owner is og.Value and bool(schema.inputs) and not schema.inputs[0].variadic
    inputs = len(schema.inputs) - itself
    assert len(parameters) == 1 + inputs + len(schema.attributes) + 2
    assert method.__name__ == method_name(kind)
    assert schema.summary in method.__doc__
    assert f"dev_guide_op_{kind.lower()}.html" in method.__doc__


def sample(kind):
    """A builder, the inputs of an op, its attributes, and what it is to make."""
    schema = OPS[kind]
    shapes, attrs = schema.sample
    types, made = (type_combinations(kind) or [(("f32",) * len(shapes), ())])[0]
    b = og.GraphBuilder()
    values = [b.input(s, t) for s, t in zip(shapes, types, strict=True)]
    specs = list(zip(shapes, types, strict=True))
    expected = check(kind, specs, attrs, [(None, d) for d in made] if made else None)
    options = {**attrs, "dtype": made[0]} if made else dict(attrs)
    return b, values, options, expected


@pytest.mark.parametrize("kind", OPS)
def test_a_method_of_builder_and_value_makes_its_op(kind):
    if OPS[kind].since > LINKED:
        b = og.GraphBuilder()
        with pytest.raises(og.UnimplementedError, match=kind):
            getattr(b, method_name(kind))(b.input((2, 2)))
        return
    b, values, options, expected = sample(kind)
    calls = [lambda: getattr(b, method_name(kind))(*values, **options)]
    if values:
        calls.append(lambda: getattr(values[0], method_name(kind))(*values[1:], **options))
    for call in calls:
        result = call()
        node = b.nodes[-1]
        assert (node.kind, node.inputs) == (kind, tuple(values))
        assert [(v.shape, v.dtype) for v in node.outputs] == [(s.shape, s.dtype) for s in expected]
        fresh = result if isinstance(result, tuple) else (result,) if result is not None else ()
        assert fresh == node.outputs
        assert all(v.producer is node and v.builder is b for v in fresh)
    assert len(b.nodes) == len(calls)


def test_inputs_come_by_position_or_name():
    b = og.GraphBuilder()
    x, w, bias = b.input((2, 3)), b.input((3, 2)), b.input((2,))
    for call in (
        lambda: b.matmul(x, w, bias),
        lambda: b.matmul(x, w, bias=bias),
        lambda: b.matmul(bias=bias, weights=w, src=x),
        lambda: x.matmul(w, bias),
        lambda: x.matmul(bias=bias, weights=w),
        lambda: b.op("MatMul", x, w, bias),
    ):
        call()
        assert b.nodes[-1].inputs == (x, w, bias)


def test_variadic_inputs_follow_the_value():
    y = run(lambda x, z: x.concat(z, x, axis=1), X, X + 1)
    np.testing.assert_array_equal(y, np.concatenate([X, X + 1, X], 1))


def test_variadic_inputs_may_be_one_list():
    b = og.GraphBuilder()
    x, y = b.input((2, 3)), b.input((2, 4))
    assert b.concat([x, y], axis=1).shape == b.concat(x, y, axis=1).shape == (2, 7)


def test_text_or_a_list_as_an_input_is_refused_with_what_to_write():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    with pytest.raises(TypeError, match=r"TypeCast.*input 1.*got the text 'bf16'.*dtype='bf16'"):
        x.type_cast("bf16")
    with pytest.raises(TypeError, match=r"GELU.*input 0.*one tensor is expected, got a list"):
        b.op("GELU", [x])


@pytest.mark.parametrize(
    ("given", "taken"), [("float32", "f32"), ("bfloat16", "bf16"), ("bool", "boolean")]
)
def test_data_types_may_have_numpys_names(given, taken):
    assert og.GraphBuilder().input((2,), given).dtype == taken


def test_attributes_are_taken_in_the_documents_spelling_and_kept_in_the_librarys():
    b = og.GraphBuilder()
    x, w = b.input((1, 8, 8, 2)), b.input((3, 3, 2, 4))
    padding = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    y = b.convolution(x, w, **padding, auto_pad="same_upper")
    assert y.producer.attrs["auto_pad"] == "SAME_UPPER"
    assert y.shape == (1, 8, 8, 4)


def test_several_outputs_come_as_a_tuple_and_none_as_none():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    made = b.layer_norm(x, keep_stats=True, name="ln")
    assert [(v.name, v.shape) for v in made] == [("ln:0", (2, 3)), ("ln:1", (2,)), ("ln:2", (2,))]
    assert b.end(x) is None


def test_statistics_of_16_bit_data_are_f32():
    """In 16 bits oneDNN writes them beside their memory (`narrow_statistics`)."""
    b = og.GraphBuilder()
    x = b.input((2, 8, 6), "bf16")
    for made in (x.layer_norm(use_affine=False), x.group_norm(groups=2, use_affine=False)):
        assert [v.dtype for v in made] == ["bf16", "f32", "f32"]


def test_the_data_type_of_an_output_may_be_chosen():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    assert x.type_cast(dtype="bf16").dtype == "bf16"
    assert x.type_cast(dtype=np.float16).dtype == "f16"
    assert x.type_cast(dtype=og.logical_tensor.bf16).dtype == "bf16"
    assert x.quantize(scales=[0.1], zps=[0], dtype=np.uint8).dtype == "u8"
    with pytest.raises(og.InvalidDataTypeError, match=r"op 'c' \(TypeCast\).*give dtype"):
        x.type_cast(name="c")
    assert run(lambda x: x.type_cast(dtype="bf16"), X).dtype == BF16


def test_op_takes_what_is_known_of_the_outputs():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    y = b.op("Wildcard", x, outputs=[((2, -1), "bf16")])
    assert (y.shape, y.dtype, y.ndim) == ((2, -1), "bf16", 2)
    unknown = b.op("Wildcard", x, outputs=[(None, "f32")])
    assert unknown.shape is None
    assert unknown.relu().shape is None
    with pytest.raises(og.InvalidShapeError, match="number of dims is not known"):
        _ = unknown.ndim


# -- operators

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    ">=": operator.ge,
    "<=": operator.le,
}
OTHERS = {
    "of the same shape": np.float32([[1.5, 4, -3], [0.5, -1, 0.25]]),
    "a row": np.float32([1.5, 3, -0.5]),
    "a column": np.float32([[2], [5]]),
    "of higher rank": np.arange(1, 25, dtype=np.float32).reshape(4, 1, 2, 3) - 12.5,
    "of rank 0": np.array(1.5, np.float32),
}


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("other", OTHERS)
def test_operators_compute_what_numpy_does_on_both_sides(symbol, other):
    operate, o = BINARY[symbol], OTHERS[other]
    for got, expected in (
        (run(operate, X, o), operate(X, o)),
        (run(operate, o, X), operate(o, X)),
        (run(lambda x: operate(x, o), X), operate(X, o)),
        (run(lambda x: operate(o, x), X), operate(o, X)),
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-6, strict=True)


@pytest.mark.parametrize("symbol", BINARY)
@pytest.mark.parametrize("number", [3, -0.5, True, np.float32(1.5)], ids=repr)
def test_operators_take_numbers_on_both_sides(symbol, number):
    operate = BINARY[symbol]
    for function in (lambda x: operate(x, number), lambda x: operate(number, x)):
        expected = np.asarray(function(X))
        np.testing.assert_allclose(run(function, X), expected, rtol=1e-6, strict=True)


MATRICES = {
    "matrices": (X, W),
    "batches": (np.stack([X, -X]), np.stack([W, W + 1])),
    "a batch and a matrix": (np.stack([X, -X, 2 * X]), W),
    "a matrix and a batch": (X, np.stack([W, W + 1])),
    "batches of different rank": (
        np.arange(36, dtype=np.float32).reshape(3, 2, 2, 3), np.stack([W, W - 1]),
    ),
    "a matrix and a vector": (X, W[:, 0].copy()),
    "a vector and a matrix": (W[:, 0].copy(), W),
    "vectors": (W[:, 0].copy(), W[:, 1].copy()),
}  # fmt: skip


@pytest.mark.parametrize("case", MATRICES)
def test_matmul_computes_what_numpy_does(case):
    a, c = MATRICES[case]
    for got in (
        run(operator.matmul, a, c),
        run(lambda x: x @ c, a),
        run(lambda x: a @ x, c),
    ):
        np.testing.assert_allclose(got, np.asarray(a @ c), rtol=1e-6, strict=True)


@pytest.mark.parametrize("exponent", [2, 0.5, 3, -1, 2.0, np.float32(1.5)], ids=repr)
def test_powers_compute_what_numpy_does(exponent):
    positive = np.abs(X)  # oneDNN has no kernel for Pow alone, but for what it can be written as
    got = run(lambda x: x**exponent, positive)
    np.testing.assert_allclose(got, positive**exponent, rtol=1e-6, strict=True)


@pytest.mark.parametrize(("exponent", "kind"), [(2, "Square"), (0.5, "Sqrt"), (3, "Pow")])
def test_a_power_is_the_op_that_is_made_for_it(exponent, kind):
    b = og.GraphBuilder()
    assert (b.input((2,)) ** exponent).producer.kind == kind


def test_abs_and_negation_compute_what_numpy_does():
    np.testing.assert_array_equal(run(abs, X), abs(X))
    negative = run(operator.neg, X)
    np.testing.assert_array_equal(negative, -X)
    assert negative.dtype == np.float32


@pytest.mark.parametrize("use", [lambda x: x * 2.5, lambda x: 1 - x, lambda x: -x, lambda x: 3 / x])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_a_number_takes_the_data_type_of_the_value_beside_it(use, dtype):
    b = og.GraphBuilder()
    made = use(b.input((2, 3), dtype))
    (constant,) = b.constants
    assert constant.dtype == dtype
    assert made.dtype == dtype


def test_operators_compute_in_bf16():
    x = X.astype(BF16)
    for function, expected in (
        (lambda v: v * 0.3, X * np.float32(BF16(0.3))),
        (lambda v: 1 - v, 1 - X),
        (lambda v: v + x, X + X),
        (lambda v: x / v, X / X),
        (lambda v: -v, -X),
    ):
        got = run(function, x)
        np.testing.assert_array_equal(got, expected.astype(BF16), strict=True)


def test_a_number_is_rounded_to_the_data_type_of_the_value():
    b = og.GraphBuilder()
    _ = b.input((2,), "bf16") + 1.01
    assert b.constants[0].data.tolist() == [float(BF16(1.01))]


@pytest.mark.parametrize(
    "use", [lambda x: x * 2.0, lambda x: 1 - x, lambda x: -x, lambda x: x >= 0]
)
def test_a_value_of_rank_0_stays_one_beside_a_number(use):
    x = np.array(1.5, np.float32)
    np.testing.assert_array_equal(run(use, x), np.asarray(use(x)), strict=True)


def test_a_value_of_rank_0_stays_one_beside_another():
    x, y = np.array(1.5, np.float32), np.array(-4, np.float32)
    for use in (lambda v: v - y, lambda v: y / v, lambda v: v >= y[()], abs):
        np.testing.assert_array_equal(run(use, x), np.asarray(use(x)), strict=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + "1",
        lambda x: x * 1j,
        lambda x: x @ None,
        lambda x: x + object(),
        lambda x: np.array(["a", "b", "c"]) + x,
        lambda x: np.ma.ones((2, 3), np.float32) + x,
        lambda x: np.add.at(x, 0, 1),
    ],
)
def test_what_no_operator_takes_is_a_type_error(use):
    b = og.GraphBuilder()
    with pytest.raises(TypeError):
        use(b.input((2, 3)))
    assert b.nodes == b.constants == ()


def test_an_array_is_not_changed_by_an_operator_in_place():
    a, b = X.copy(), og.GraphBuilder()
    with pytest.raises(TypeError, match="only one value can be written to, and no array"):
        a += b.input((2, 3))
    np.testing.assert_array_equal(a, X)


def test_a_value_has_no_truth_value_and_is_no_array():
    b = og.GraphBuilder()
    x = b.input((2, 3), name="x")
    with pytest.raises(TypeError, match="'x' f32 2x3> has no truth value"):
        bool(x)
    with pytest.raises(TypeError, match="boolean 2x3> has no truth value"):
        _ = x if 0 <= x <= 1 else -x
    for use in (np.asarray, np.array, lambda v: np.asarray(v, np.float32)):
        with pytest.raises(TypeError, match="'x' f32 2x3> is not an array"):
            use(x)


def test_values_may_be_keys_and_comparing_them_makes_a_step():
    b = og.GraphBuilder()
    x, y = b.input((2,)), b.input((2,))
    assert {x: 1, y: 2}[y] == 2
    assert not b.nodes
    assert (x == y).dtype == "boolean"


# -- names


def test_scopes_nest_and_name_ops_and_tensors():
    b = og.GraphBuilder()
    with b.scope("encoder"):
        x = b.input((1, 4, 4, 2), name="x")
        with b.scope("layer0"):
            c = b.constant(np.ones(2, np.float32), name="c")
            y = x.add(c, name="shift")
            made = y.layer_norm(keep_stats=True, name="norm")
            unnamed = made[0].relu()
        z = unnamed.relu(name="act")
    outside = z.relu(name="last")
    assert [v.name for v in (x, c, y, *made, unnamed, z, outside)] == [
        "encoder/x",
        "encoder/layer0/c",
        "encoder/layer0/shift",
        "encoder/layer0/norm:0",
        "encoder/layer0/norm:1",
        "encoder/layer0/norm:2",
        "",
        "encoder/act",
        "last",
    ]
    assert [n.name for n in b.nodes] == [
        "encoder/layer0/shift",
        "encoder/layer0/norm",
        "",
        "encoder/act",
        "last",
    ]


def test_names_are_text_that_can_be_written():
    b = og.GraphBuilder()
    x = b.input((2,), name="é")
    for use in (
        lambda: b.input((2,), name="\ud800"),
        lambda: b.constant([1.0], "f32", name="\ud800"),
        lambda: x.relu(name="\ud800"),
        lambda: b.scope("\ud800").__enter__(),
    ):
        with pytest.raises(og.InvalidArgumentsError, match=r"'\\ud800' has half of a surrogate"):
            use()
    with pytest.raises(TypeError, match="a name must be a str, got int"):
        x.relu(name=1)
    assert (len(b.inputs), len(b.constants), len(b.nodes)) == (1, 0, 0)


def test_a_scope_ends_with_an_error():
    b = og.GraphBuilder()
    with pytest.raises(ZeroDivisionError), b.scope("a"), b.scope("b"):
        _ = 1 / 0
    assert b.input((2,), name="x").name == "x"


def test_equal_names_in_different_scopes_are_different_inputs():
    b = og.GraphBuilder()
    for scope in ("a", "b"):
        with b.scope(scope):
            b.output(b.input((2,), name="x").relu(name="y"))
    assert [v.name for v in b.inputs] == ["a/x", "b/x"]
    assert list(b.outputs) == ["a/y", "b/y"]
    got = b.compile()(**{"b/x": X[0, :2], "a/x": X[1, :2]})
    np.testing.assert_array_equal(got, np.maximum([X[1, :2], X[0, :2]], 0))


def test_the_ops_names_are_in_the_steps():
    b = og.GraphBuilder()
    with b.scope("block"):
        b.output(b.input((2, 3)).matmul(W, name="fc").relu(name="act"))
    (step,) = b.compile().steps()
    assert (step.ops, step.names) == (("MatMul", "ReLU"), ("block/fc", "block/act"))


def test_reprs_tell_what_there_is():
    b = og.GraphBuilder()
    x = b.input((2, -1), "bf16", name="x")
    b.output(x.relu(name="y"))
    c = b.constant(X, name="c")
    assert repr(b) == "<GraphBuilder: 1 inputs, 1 constants, 1 ops, 1 outputs>"
    assert repr(x) == "<Value 'x' bf16 2x?>"
    assert repr(c) == "<Value 'c' constant f32 2x3>"


# -- outputs


def test_outputs_come_back_by_name_and_in_order():
    b = og.GraphBuilder()
    x = b.input((2, 3), name="x")
    b.output(x.relu(name="r"), -x, twice=x * 2.0, half=x * 0.5)
    b.output(x.abs())
    assert list(b.outputs) == ["r", "output1", "twice", "half", "output4"]
    model = b.compile()
    assert model.output_names == ("r", "output1", "twice", "half", "output4")
    expected = [np.maximum(X, 0), -X, X * 2, X * 0.5, abs(X)]
    for got, wanted in zip(model(X), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_output_may_be_an_input_a_constant_or_given_twice():
    b = og.GraphBuilder()
    x, c = b.input((2, 3), name="x"), b.constant(W, name="c")
    y = x.relu()
    b.output(x=x, y=y, c=c, again=y, once_more=x)
    model = b.compile()
    for _ in range(2):
        x_, y_, c_, again, once_more = results = model(X)
        for got, wanted in ((x_, X), (once_more, X), (c_, W)):
            np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(y_, np.maximum(X, 0))
        np.testing.assert_array_equal(again, y_)
        for one, other in itertools.combinations([*results, X, c.data], 2):
            assert not np.shares_memory(one, other)
        x_[...] = c_[...] = 7  # what a caller does with results is his own matter
    np.testing.assert_array_equal(c.data, W)


def test_a_graph_without_ops_passes_on():
    np.testing.assert_array_equal(run(lambda x: x, X), X)
    b = og.GraphBuilder()
    b.output(b.constant(X))
    np.testing.assert_array_equal(b.compile()(), X)


def test_outputs_may_be_read_inside_of_a_fused_partition():
    b = og.GraphBuilder()
    x = b.input((2, 3), name="x")
    product = x @ W
    shifted = product + np.float32([0.5, -0.5])
    active = shifted.relu()
    b.output(product=product, shifted=shifted, active=active, last=active * 2.0)
    p = X @ W
    s = p + np.float32([0.5, -0.5])
    for options in ({}, {"layout": "plain"}):
        got = b.compile(**options)(X)
        for one, wanted in zip(got, [p, s, np.maximum(s, 0), 2 * np.maximum(s, 0)], strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-6)


@pytest.mark.parametrize("kept", range(1, 8))
def test_any_choice_of_outputs_of_a_chain_is_right(kept):
    b = og.GraphBuilder()
    x = b.input((2, 3))
    values, expected = [x @ W], [X @ W]
    values.append(values[-1].relu())
    expected.append(np.maximum(expected[-1], 0))
    values.append(values[-1] + values[0])
    expected.append(expected[-1] + expected[0])
    chosen = [i for i in range(3) if kept >> i & 1]
    b.output(*(values[i] for i in chosen))
    got = b.compile()(X)
    for one, i in zip(got if len(chosen) > 1 else [got], chosen, strict=True):
        np.testing.assert_allclose(one, expected[i], rtol=1e-6)


def test_what_no_output_needs_is_not_run():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    b.op("Wildcard", x, outputs=[((2, 3), "f32")])  # which nothing could run
    b.output(x.relu())
    assert [step.ops for step in b.compile().steps()] == [("ReLU",)]


def test_a_name_of_an_output_is_taken_once():
    b = og.GraphBuilder()
    x = b.input((2, 3))
    b.output(y=x)
    with pytest.raises(og.InvalidArgumentsError, match="output 'y': there is an output of this"):
        b.output(y=x.relu())
    with pytest.raises(og.InvalidArgumentsError, match="output 'y'"):
        b.output(x.relu(name="y"))
    assert b.outputs == {"y": x}


@pytest.mark.parametrize("wrong", [X, 1.0, None, "y", [1]], ids=repr)
def test_an_output_must_be_a_value(wrong):
    b = og.GraphBuilder()
    with pytest.raises(TypeError, match=f"output must be a Value, got {type(wrong).__name__}"):
        b.output(wrong)
    assert b.outputs == {}


def test_a_graph_without_outputs_does_not_compile():
    b = og.GraphBuilder()
    b.input((2,)).relu()
    with pytest.raises(og.InvalidGraphError, match="no output; call output first"):
        b.compile()


@pytest.mark.parametrize(
    "use",
    [
        lambda b: [b.input((2,), name="input1"), b.input((2,))],
        lambda b: [b.output(output1=b.input((2,))), b.output(b.inputs[0].relu())],
    ],
    ids=["input", "output"],
)
def test_a_default_name_is_one_that_is_free(use):
    use(og.GraphBuilder())


def test_an_output_may_have_any_name():
    b = og.GraphBuilder()
    b.output(**{"self": b.input((2,)).relu()})
    assert list(b.outputs) == ["self"]


def test_a_refused_call_of_output_adds_nothing():
    b = og.GraphBuilder()
    with pytest.raises(TypeError):
        b.output(b.input((2,)), 1)
    assert b.outputs == {}


# -- constants


def test_a_constant_is_a_private_copy():
    for dtype in (None, "f32", "bf16"):
        weights = W.copy()
        b = og.GraphBuilder()
        c = b.constant(weights, dtype)
        assert not np.shares_memory(c.data, weights)
        weights[...] = 0
        np.testing.assert_array_equal(c.data, W)


def test_a_constant_can_not_be_written():
    b = og.GraphBuilder()
    for value in (b.constant(W), b.constant([1, 2], "u4"), b.input((2, 3)) * 2.0):
        data = value.data if value.data is not None else b.constants[-1].data
        with pytest.raises(ValueError, match="read-only"):
            data[...] = 0


@pytest.mark.parametrize(
    "array", [W.T, W[::-1], W[::2, ::-1], np.asfortranarray(W), np.broadcast_to(W[0], (4, 2))]
)
def test_a_constant_of_any_strides_is_kept_row_major(array):
    b = og.GraphBuilder()
    c = b.constant(array)
    assert c.data.flags.c_contiguous and c.data.ctypes.data % 64 == 0
    assert c.strides is None
    np.testing.assert_array_equal(c.data, array, strict=True)
    b.output(c)
    np.testing.assert_array_equal(b.compile()(), array, strict=True)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 0)])
def test_constants_of_rank_0_and_without_elements_are_kept(shape):
    c = og.GraphBuilder().constant(np.ones(shape, np.float32))
    assert c.shape == c.data.shape == shape


CONVERTED = {
    "f32 to bf16, down": ([1 + 2**-9], "bf16", [1]),
    "f32 to bf16, half to even": ([1 + 2**-8, 1 + 3 * 2**-8], "bf16", [1, 1 + 2**-6]),
    "f64 to f32": ([1 + 2**-24 + 2**-50], "f32", [1 + 2**-23]),
    "f64 to f16": ([1 + 2**-11, 1 + 2**-11 + 2**-40], "f16", [1, 1 + 2**-10]),
    "f32 to f8": ([1 + 2**-4, 1.1875], "f8_e4m3", [1, 1.25]),
    "too large": ([1e6, -1e6], "f16", [np.inf, -np.inf]),
    "int to f32": ([1, 2], "f32", [1, 2]),
    "f64 to s8": ([-128.0, 127.0], "s8", [-128, 127]),
    "int to u8": ([0, 255], "u8", [0, 255]),
    "int to s32": ([-(2**31), 2**31 - 1], "s32", [-(2**31), 2**31 - 1]),
    "int to bool": ([0, 1], "boolean", [False, True]),
    "bool to u8": ([False, True], "u8", [0, 1]),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_a_constant_is_converted_rounding_to_nearest_even(case):
    given, dtype, expected = CONVERTED[case]
    c = og.GraphBuilder().constant(given, dtype)
    assert c.dtype == dtype
    assert c.data.dtype == og.dtypes.numpy_dtype(c.logical_tensor.get_data_type())
    assert c.data.astype(np.float64).tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1 + 2**-8 + 2**-40, "bf16", 1 + 2**-7),
        # As oneDNN does it: 8-bit floats by way of f16.
        (1 + 2**-4 + 2**-40, "f8_e4m3", 1.0),
        (1 + 2**-3 + 2**-40, "f8_e5m2", 1.0),
    ],
)
def test_a_constant_is_rounded_as_onednn_rounds(value, dtype, expected):
    c = og.GraphBuilder().constant([value], dtype)
    assert c.data.astype(np.float64).tolist() == [expected]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([256], "u8"),
        ([-1], "u8"),
        ([128], "s8"),
        ([-129], "s8"),
        ([1.5], "s8"),
        ([np.nan], "s8"),
        ([np.inf], "s32"),
        ([2**31], "s32"),
        (np.float32([2**31]), "s32"),
        (np.uint64([2**63 + 1]), "s32"),
        ([8], "s4"),
        ([-9], "s4"),
        ([16], "u4"),
        ([-1], "u4"),
        ([0.5], "u4"),
        ([2], "boolean"),
        ([True, False, -1], "boolean"),
    ],
)
def test_numbers_that_an_integer_type_can_not_hold_are_refused(values, dtype):
    b = og.GraphBuilder()
    with pytest.raises(og.InvalidDataTypeError, match=f"constant 'c': {dtype} can't hold all"):
        b.constant([0, *values], dtype, name="c")
    assert b.constants == ()


@pytest.mark.parametrize("dtype", ["s4", "u4"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 3)])
@pytest.mark.parametrize("of", ["int", "float", "ml_dtypes"])
def test_4_bit_constants_are_packed(dtype, shape, of):
    low = -8 if dtype == "s4" else 0
    values = np.arange(np.prod(shape)).reshape(shape) % 16 + low
    small = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}[dtype]
    given = {"int": values, "float": values.astype(np.float64), "ml_dtypes": values.astype(small)}
    c = og.GraphBuilder().constant(given[of], None if of == "ml_dtypes" else dtype)
    assert (c.shape, c.dtype) == (shape, dtype)
    assert (c.data.dtype, c.data.shape) == (np.uint8, ((values.size + 1) // 2,))
    np.testing.assert_array_equal(unpack_int4(c.data, shape, dtype), values)


@pytest.mark.parametrize("dtype", ["s4", "u4"])
def test_4_bit_weights_compute(dtype):
    low = -8 if dtype == "s4" else 0
    weights = (np.arange(64 * 32) % 16 + low).reshape(64, 32)
    x = np.arange(2 * 64, dtype=np.float32).reshape(2, 64) % 5 - 2
    b = og.GraphBuilder(fpmath_mode="bf16", apply_to_int=True)
    w = b.dynamic_dequantize(
        b.constant(weights, dtype), np.full(32, 0.5, np.float32), qtype="per_channel", axis=1
    )
    b.output(b.input((2, 64)) @ w)
    # Small whole numbers are exact in bf16 too.
    np.testing.assert_array_equal(b.compile()(x), x @ (weights * np.float32(0.5)))


@pytest.mark.parametrize(
    "array", [1.5, [1, 2], np.ones(2), np.ones(2, ">f4"), None, "text", np.ones(2, complex)]
)
def test_an_array_of_a_type_that_onednn_lacks_needs_a_data_type(array):
    if np.asarray(array).dtype == np.int64 and LINKED >= (3, 12):
        array = np.uint64([1, 2])  # there, s64 is a data type
    b = og.GraphBuilder()
    with pytest.raises(og.InvalidDataTypeError, match="no data type for NumPy's"):
        b.constant(array)
    assert b.constants == ()


@pytest.mark.filterwarnings("ignore")
def test_complex_numbers_are_no_constant():
    with pytest.raises(og.InvalidDataTypeError):
        og.GraphBuilder().constant([1j], "f32")


def test_a_constant_of_another_byte_order_is_converted():
    c = og.GraphBuilder().constant(W.astype(">f4"), "f32")
    np.testing.assert_array_equal(c.data, W, strict=True)


def test_constants_have_names_and_are_listed():
    b = og.GraphBuilder()
    first, second = b.constant(W), b.constant(W, name="w")
    _ = b.input((2, 2)) + 1.0
    assert [c.name for c in b.constants] == ["constant0", "w", "constant2"]
    assert b.constants[:2] == (first, second)
    assert first.logical_tensor.get_property_type() is og.logical_tensor.constant


def test_a_constant_may_have_only_dlpack():
    class Producer:
        __dlpack__, __dlpack_device__ = X.__dlpack__, X.__dlpack_device__

    b = og.GraphBuilder()
    np.testing.assert_array_equal(b.constant(Producer()).data, X)
    assert b.constant(Producer(), "bf16").dtype == "bf16"


def test_a_constant_of_undefined_data_type_is_refused():
    with pytest.raises(og.InvalidArgumentsError, match="undef"):
        og.GraphBuilder().constant([1.0], "undef")


# -- inputs


def test_inputs_have_default_names_and_keep_their_order():
    b = og.GraphBuilder()
    given = [b.input((2,)), b.input((2,), name="mine"), b.input((2,))]
    assert [v.name for v in given] == ["input0", "mine", "input2"]
    assert b.inputs == tuple(given)
    assert all(v.producer is None and v.data is None for v in given)


@pytest.mark.parametrize("dtype", ["bf16", BF16, np.dtype(BF16), og.logical_tensor.bf16])
def test_a_data_type_comes_in_any_form(dtype):
    assert og.GraphBuilder().input((2,), dtype).dtype == "bf16"


WRONG_INPUTS = {
    "a name twice": (
        {"shape": (3,), "name": "x"}, og.InvalidArgumentsError, "input 'x': there is an input",
    ),
    "unknown rank": (
        {"shape": None, "name": "y"}, og.InvalidShapeError,
        "input 'y': the number of dims must be known",
    ),
    "too few strides": (
        {"shape": (2, 3), "strides": (1,)}, og.InvalidShapeError,
        r"input 'input1': strides must be one for each of 2 known dims, got \[1\] for 2x3",
    ),
    "too many strides": (
        {"shape": (2,), "strides": (2, 1)}, og.InvalidShapeError, r"got \[2, 1\] for 2",
    ),
    "strides of unknown dims": (
        {"shape": (-1, 3), "strides": (3, 1)}, og.InvalidShapeError, r"got \[3, 1\] for \?x3",
    ),
    "negative strides": (
        {"shape": (2, 3), "strides": (3, -1)}, og.InvalidShapeError,
        "'input1'.*strides .* not negative",
    ),
    "too many dims": (
        {"shape": (1,) * 13}, og.InvalidShapeError, "'input1'.*13 entries.*at most 12",
    ),
    "a negative dim": ({"shape": (-2, 3)}, og.InvalidShapeError, "'input1'"),
    "half a dim": ({"shape": (2.7, 3)}, TypeError, "int"),
    "text as shape": ({"shape": "23"}, TypeError, "int"),
    "the undefined data type": (
        {"shape": (2,), "dtype": "undef"}, og.InvalidArgumentsError, "undef",
    ),
    "a misspelt data type": (
        {"shape": (2,), "dtype": "float33"}, og.InvalidArgumentsError, "'float33' is not a data",
    ),
    "a data type oneDNN lacks": (
        {"shape": (2,), "dtype": np.complex128}, og.InvalidDataTypeError, "NumPy's complex128",
    ),
    "a number as shape": ({"shape": 3}, TypeError, "int"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_a_wrong_input_is_refused(case):
    arguments, error, text = WRONG_INPUTS[case]
    b = og.GraphBuilder()
    x = b.input((2,), name="x")
    with pytest.raises(error, match=text):
        b.input(**arguments)
    assert b.inputs == (x,)


@pytest.mark.parametrize("shape", [(2, 3), (3, 1, 4)])
def test_strided_inputs_are_used_without_a_copy(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape[::-1]).T - 3
    padded = np.full((*shape[:-1], shape[-1] + 2), np.nan, np.float32)
    padded[..., 1:-1] = x
    for array in (x, padded[..., 1:-1]):
        b = og.GraphBuilder()
        v = b.input(shape, strides=[s // 4 for s in array.strides])
        b.output(b.relu(v), v * 2.0, v)
        model = b.compile()
        relu, twice, same = model(array)
        assert model.copies == 0
        np.testing.assert_array_equal(relu, np.maximum(x, 0), strict=True)
        np.testing.assert_array_equal(twice, x * 2, strict=True)
        np.testing.assert_array_equal(same, x, strict=True)
        given = [s // 4 for n, s in zip(array.shape, array.strides, strict=True) if n > 1]
        made = v.logical_tensor
        assert given == [
            s for n, s in zip(made.get_dims(), made.get_strides(), strict=True) if n > 1
        ]


def test_a_transposed_weight_is_used_without_a_copy():
    b = og.GraphBuilder()
    b.output(b.input((2, 3)) @ b.input((3, 2), strides=(1, 3)))
    model = b.compile()
    np.testing.assert_allclose(model(X, np.asfortranarray(W)), X @ W, rtol=1e-6)
    assert model.copies == 0
    model(X, W)
    assert model.copies == 1


# -- errors


def base():
    b = og.GraphBuilder()
    return b, b.input((2, 3), name="x")


OTHER = og.GraphBuilder()  # kept, as a user would
FOREIGN = OTHER.input((2, 3), name="foreign")

WRONG_OPS = {
    "a misspelt attribute": (
        lambda b, x: b.matmul(x, W, transposeb=True, name="fc"), og.InvalidGraphOpError,
        r"op 'fc' \(MatMul\).*'transposeb', did you mean 'transpose_b'\?",
    ),
    "the type of an attribute": (
        lambda b, x: x.clamp(min="0", max=1), TypeError, r"\(Clamp\): attribute min.*got '0' \(str",
    ),
    "too few inputs": (
        lambda b, x: b.add(x), og.InvalidGraphOpError,
        r"op \(Add\): must have 2 inputs \(src_0, src_1\), got 1",
    ),
    "shapes of a product": (
        lambda b, x: x.matmul(x, name="fc"), og.InvalidShapeError,
        r"op 'fc' \(MatMul\): input 1 \(weights\) must have dim 0 equal to 3 .*, got 2x3",
    ),
    "the shape of an output": (
        lambda b, x: b.op("ReLU", x, outputs=[((3, 3), None)]), og.InvalidShapeError,
        r"op \(ReLU\): output 0 .*2x3.*got 3x3",
    ),
    "a misspelt op": (
        lambda b, x: b.op("Matmul", x, W), og.InvalidArgumentsError, "'Matmul' is not an op kind; ",
    ),
    "numbers only": (lambda b, x: b.add(1, 2), TypeError, "a number needs another operand that is"),
    "a value of another builder": (
        lambda b, x: x + FOREIGN, og.InvalidArgumentsError,
        "<Value 'foreign' f32 2x3> belongs to another GraphBuilder",
    ),
    "a value of another builder, first": (
        lambda b, x: FOREIGN.add(x), og.InvalidArgumentsError, "'x' f32 2x3> belongs to another",
    ),
    "an output of another builder": (
        lambda b, x: b.output(y=FOREIGN), og.InvalidArgumentsError, "'foreign'.*another GraphB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_OPS)
def test_an_error_names_op_argument_expected_and_given(case):
    use, error, text = WRONG_OPS[case]
    b, x = base()
    with pytest.raises(error, match=text):
        use(b, x)
    assert b.nodes == () and b.outputs == {}


UNCLEAR = {
    "a port left out before others": (
        lambda b, x: b.matmul(x, bias=np.ones(2, np.float32)), r"\(MatMul\).*weights",
    ),
    "a port by position and by name": (
        lambda b, x: b.matmul(x, W, weights=W), r"\(MatMul\).*'?weights'?.* (twice|multiple)",
    ),
    "a misspelt port": (lambda b, x: b.matmul(x, weight=W), r"did you mean 'weights'"),
    "a list": (lambda b, x: b.add(x, [1.0, 2.0, 3.0]), r"\(Add\).*src_1"),
    "an f64 array": (lambda b, x: b.add(x, np.ones(3)), r"\(Add\).*src_1"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNCLEAR)
def test_an_error_names_the_port_that_is_wrong(case):
    use, text = UNCLEAR[case]
    with pytest.raises((og.OneDNNError, TypeError), match=text):
        use(*base())


def test_a_value_whose_builder_is_gone_says_so():
    x = og.GraphBuilder().input((2, 3), name="x")
    gc.collect()
    with pytest.raises(og.InvalidArgumentsError, match="'x' f32 2x3>: its GraphBuilder is gone"):
        x.relu()


def test_wrong_options_of_a_builder_are_refused():
    with pytest.raises(og.InvalidArgumentsError, match=r"'tpu'.*did you mean 'cpu'"):
        og.GraphBuilder("tpu")
    with pytest.raises(og.InvalidArgumentsError, match="expected one of strict, bf16"):
        og.GraphBuilder(fpmath_mode="fast")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layout": "nice"}, "layout must be one of 'auto', 'plain', got 'nice'"),
        ({"fallback": "torch"}, "fallback must be one of 'reference', 'error', got 'torch'"),
        ({"threads": 0}, "threads must be a whole number, at least 1, got 0"),
        ({"max_shapes": 0}, "max_shapes must be a whole number, at least 1, got 0"),
        ({"slow_fusions": "no"}, "slow_fusions must be one of 'avoid', 'run', got 'no'"),
        ({"check": "verfy"}, "check must be one of 'verify', None, got 'verfy'"),
        ({"fold_constants": 1}, "fold_constants must be one of True, False, got 1"),
    ],
)
def test_wrong_options_of_compile_are_refused(options, text):
    b, x = base()
    b.output(x.relu())
    with pytest.raises(og.InvalidArgumentsError, match=text):
        b.compile(**options)


# oneDNN has no CPU kernel for these, nor for what else they could be written as.
ALONE = {
    "Pow": lambda x: (x.pow(beta=0.3, name="root"), line_of_caller()),
    "Wildcard": lambda x: (
        x.builder.op("Wildcard", x, outputs=[((2, 3), "f32")], name="root"), line_of_caller(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALONE)
def test_an_error_of_compile_names_the_line_that_made_the_op(kind):
    b, x = base()
    with b.scope("s"):
        made, where = ALONE[kind](x)
    assert made.producer.where == where
    b.output(made.relu())
    with pytest.raises(og.UnimplementedError, match=rf"op 's/root' \({kind}\) made at ") as error:
        b.compile(fallback="error")
    why = "a Wildcard stands for" if kind == "Wildcard" else "oneDNN has no cpu kernel"
    assert f"made at {where}: {why}" in str(error.value)


def test_operators_know_their_line_too():
    b, x = base()
    made, where = x**0.3, line_of_caller()
    b.output(made)
    with pytest.raises(og.UnimplementedError, match=re.escape(f"op (Pow) made at {where}:")):
        b.compile(fallback="error")


def test_a_builder_goes_on_after_an_error():
    b, x = base()
    with pytest.raises(og.InvalidShapeError):
        x.matmul(x)
    with pytest.raises(og.InvalidDataTypeError):
        b.constant([300], "u8")
    b.output(x.relu())
    np.testing.assert_array_equal(b.compile()(X), np.maximum(X, 0))


def test_a_refused_op_leaves_no_constants():
    b, x = base()
    with pytest.raises(og.InvalidShapeError):
        x + np.ones(4, np.float32)
    assert b.constants == ()


def test_ops_that_the_package_makes_have_the_line_of_its_caller():
    b, x = base()
    _, where = og.blocks.linear(x, W, activation="relu"), line_of_caller()
    assert [n.kind for n in b.nodes] == ["MatMul", "ReLU"]
    assert {n.where for n in b.nodes} == {where}


def test_an_error_at_the_call_names_the_line_that_made_the_op():
    b = og.GraphBuilder()
    x, y = b.input((-1, 4), name="x"), b.input((-1, 4), name="y")
    made, where = x.add(y, name="sum"), line_of_caller()
    b.output(made)
    model = b.compile()
    with pytest.raises(og.InvalidShapeError, match=r"op 'sum' \(Add\)") as error:
        model(np.ones((2, 4), np.float32), np.ones((3, 4), np.float32))
    assert where in str(error.value)


def test_the_reference_runs_what_onednn_has_no_kernel_for():
    b, x = base()
    made, where = (x @ W).abs().pow(beta=0.3), line_of_caller()
    b.output(made.relu())
    with pytest.warns(
        RuntimeWarning, match=re.escape(f"Pow made at {where} runs in NumPy")
    ) as told:
        model = b.compile()
    assert len(told) == 1
    np.testing.assert_allclose(model(X), np.abs(X @ W) ** 0.3, rtol=1e-5)
    assert [(s.ops, s.implementation) for s in model.steps()] == [
        (("MatMul", "Abs"), "oneDNN"),
        (("Pow",), "reference"),
        (("ReLU",), "oneDNN"),
    ]


def test_the_reference_can_not_run_a_wildcard():
    b, x = base()
    b.output(b.op("Wildcard", x, outputs=[((2, 3), "f32")]))
    with pytest.raises(og.UnimplementedError, match="a Wildcard stands for an op") as error:
        b.compile()
    assert "fallback='reference'" not in str(error.value)


# -- the mirror


def test_graph_is_the_mirror_s_finalized_graph():
    b = og.GraphBuilder(fpmath_mode="bf16", apply_to_int=True)
    x = b.input((2, 3), name="x")
    b.output((x @ W).relu(name="act"))
    g = b.graph
    assert isinstance(g, og.graph) and g.is_finalized()
    assert g.get_fpmath_mode() == (og.fpmath_mode.bf16, True)
    (partition,) = g.get_partitions()
    assert partition.is_supported()
    assert partition.get_ops() == [n.id for n in b.nodes]
    assert {lt.get_id() for lt in partition.get_input_ports()} == {x.id, b.constants[0].id}
    assert [lt.get_id() for lt in partition.get_output_ports()] == [b.outputs["act"].id]


def test_the_graph_is_of_what_was_built_so_far():
    b, x = base()
    x.relu()
    first = b.graph
    x.abs()
    assert [len(g.get_partitions()) for g in (first, b.graph)] == [1, 2]


def test_every_value_has_its_logical_tensor():
    b = og.GraphBuilder()
    x = b.input((2, -1), "bf16", name="x")
    strided = b.input((2, 3), strides=(1, 2))
    c = b.constant([[1, 2, 3]], "s4")
    unknown = b.op("Wildcard", x, outputs=[(None, "f32")])
    whole = strided.relu()
    variable, constant = og.logical_tensor.variable, og.logical_tensor.constant
    for value, dims, property_type in (
        (x, [2, og.UNKNOWN_DIM], variable),
        (strided, [2, 3], variable),
        (c, [1, 3], constant),
        (whole, [2, 3], variable),
    ):
        lt = value.logical_tensor
        assert (lt.get_id(), lt.get_dims()) == (value.id, dims)
        assert lt.get_data_type().name == value.dtype
        assert lt.get_property_type() is property_type
        assert lt.get_layout_type() is og.logical_tensor.strided
    assert strided.logical_tensor.get_strides() == [1, 2]
    assert whole.logical_tensor.get_strides() == [3, 1]
    assert unknown.logical_tensor.get_id() == unknown.id
    assert "unknown rank" in repr(unknown.logical_tensor)


def test_ids_are_unique_over_builders_copies_and_pickles():
    def ids(b):
        values = [*b.inputs, *b.constants, *(v for n in b.nodes for v in n.outputs)]
        return [v.id for v in values] + [n.id for n in b.nodes]

    def build():
        b, x = base()
        b.output((x @ W).relu() * 2.0)
        return b

    first, second = build(), build()
    builders = [first, second, pickle.loads(pickle.dumps(first)), copy.deepcopy(first)]
    everything = [i for b in builders for i in ids(b)]
    assert len(set(everything)) == len(everything) == 4 * len(ids(first))
    # Nor do they meet those of graphs that a user of the mirror numbers from 0.
    assert min(everything) >= 1 << 32


# -- snapshots


def test_later_ops_and_outputs_change_no_compiled_model():
    b, x = base()
    y = x.relu()
    b.output(y=y)
    model = b.compile()
    before = repr(model), model.steps()
    b.output(z=y * 2.0)
    b.input((5,), name="more")
    b.constant(W)
    assert (repr(model), model.steps()) == before
    np.testing.assert_array_equal(model(X), np.maximum(X, 0))
    # Nor what is compiled later, for other shapes.
    b = og.GraphBuilder()
    x = b.input((-1, 3))
    b.output(x.relu())
    model = b.compile()
    b.output(x.abs())
    np.testing.assert_array_equal(model(X), np.maximum(X, 0))


def test_a_model_outlives_its_builder():
    b, x = base()
    b.output(x @ W)
    model = b.compile()
    del b, x
    gc.collect()
    np.testing.assert_allclose(model(X), X @ W, rtol=1e-6)
    assert model.inputs[0].name == "x"


def test_a_snapshot_is_not_changed_by_the_builder():
    b, x = base()
    b.output(y=x.relu())
    taken = b.snapshot()
    b.output(z=x.abs())
    b.input((2,))
    assert list(taken.outputs) == ["y"]
    assert (len(taken.inputs), len(taken.nodes)) == (1, 1)
    np.testing.assert_array_equal(taken.compile()(X), np.maximum(X, 0))


# -- pickles


def pickled():
    """A builder that has some of everything."""
    b = og.GraphBuilder(fpmath_mode="bf16", apply_to_int=True)
    with b.scope("s"):
        x = b.input((2, 3), name="x", strides=(1, 2))
        y = b.matmul(x, W, name="fc") + 1.0
        cast = b.constant(W[0], "bf16").type_cast(dtype="f32")
        b.constant([[1, 2, 3]], "u4", name="packed")
        normed = (y + cast).layer_norm(keep_stats=True, use_affine=False, epsilon=0.5, name="ln")
    b.output(normed[0], x=x, stats=normed[1])
    return b


def described(b):
    values = [*b.inputs, *b.constants, *(v for n in b.nodes for v in n.outputs)]
    number = {v: i for i, v in enumerate(values)}
    return (
        repr(b),
        (b.engine_kind.name, b.fpmath_mode.name, b.apply_to_int),
        [(v.shape, v.dtype, v.name, v.strides) for v in values],
        [None if v.data is None else v.data.tolist() for v in values],
        [
            (
                n.kind, n.name, n.where, dict(n.attrs),
                [number[v] for v in n.inputs], [number[v] for v in n.outputs],
            )
            for n in b.nodes
        ],
        {name: number[v] for name, v in b.outputs.items()},
    )  # fmt: skip


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_builder_pickles_with_everything(protocol):
    b = pickled()
    restored = pickle.loads(pickle.dumps(b, protocol))
    assert described(restored) == described(b)
    assert all(not c.data.flags.writeable for c in restored.constants)
    assert all(c.data.ctypes.data % 64 == 0 for c in restored.constants)
    assert all(v.producer is n for n in restored.nodes for v in n.outputs)
    for one, other in zip(b.compile()(X), restored.compile()(X), strict=True):
        np.testing.assert_array_equal(one, other)
    restored.output(more=restored.outputs["x"].relu())  # and it can be built on
    assert list(b.outputs) != list(restored.outputs)


def test_builders_and_models_run_in_a_fresh_process(tmp_path):
    b = pickled()
    model = b.compile(name="mine", warn=False)
    with open(tmp_path / "both", "wb") as f:
        pickle.dump((b, model), f)
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    python("""
        import os, pickle
        import numpy as np
        with open("both", "rb") as f:
            b, model = pickle.load(f)
        x = np.load("x.npy")
        for made in (b.compile(), model):
            results = made(x)
            assert made.copies == 0
            for i, y in enumerate(results):
                np.save(f"{made.name}{i}.npy", y)
        assert model.name == "mine", model
        assert b.nodes[0].where.split(":")[0].endswith("test_builder.py"), b.nodes[0]
    """, cwd=tmp_path)  # fmt: skip
    for name in ("model", "mine"):
        for i, expected in enumerate(model(X)):
            np.testing.assert_array_equal(np.load(tmp_path / f"{name}{i}.npy"), expected)


def test_an_error_after_unpickling_names_the_line_that_made_the_op():
    b, x = base()
    made, where = x**0.3, line_of_caller()
    b.output(made)
    with pytest.raises(og.UnimplementedError, match=re.escape(f"made at {where}:")):
        pickle.loads(pickle.dumps(b)).compile(fallback="error")

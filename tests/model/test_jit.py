"""trace and jit: graphs from Python functions, and which models they keep."""

import functools
import gc
import weakref
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og
from onednn_graph_py import jit, trace
from onednn_graph_py.model.running.tracing import JitInfo
from onednn_graph_py.ops.tensor_spec import TensorSpec

BF16 = ml_dtypes.bfloat16
X = np.float32([[1.5, -2, 3], [-4, 5, 0.25]])
SPEC = ((2, 3), "f32")


def names(function, *specs):
    return [v.name for v in trace(function, *specs).inputs]


def info(jitted):
    i = jitted.cache_info()
    return i.hits, i.misses, i.evictions, i.currsize


def relu(x):
    """Keep what is positive."""
    return x.relu()


class Layer:
    """Something with methods."""

    def forward(self, x, w):
        return x @ w

    @classmethod
    def of_class(cls, x):
        return x.relu()

    @staticmethod
    def static(x, y):
        return x + y


# -- trace


def test_argument_names_become_input_names():
    w = ((3, 2), "f32")
    assert names(lambda left, right: left + right, SPEC, SPEC) == ["left", "right"]
    assert names(Layer().forward, SPEC, w) == ["x", "w"]
    assert names(Layer.of_class, SPEC) == ["x"]
    assert names(Layer.static, SPEC, SPEC) == ["x", "y"]


def test_arguments_without_names_are_numbered():
    assert names(lambda x, *rest: x + rest[0] + rest[1], SPEC, SPEC, SPEC) == [
        "x",
        "input1",
        "input2",
    ]
    assert names(functools.partial(lambda a, x: x + a, 1.0), SPEC) == ["x"]


def test_arguments_with_defaults_may_be_left_out():
    def scaled(x, y=2.0, *, z=1.0):
        local = x * y
        return local + z

    assert names(scaled, SPEC) == ["x"]
    np.testing.assert_array_equal(trace(scaled, SPEC).compile()(X), X * 2 + 1)


def test_an_argument_may_have_any_name():
    names(lambda input1, *rest: input1 + rest[0], SPEC, SPEC)


@pytest.mark.parametrize(
    "spec",
    [
        ((2, 3), "bf16"),
        TensorSpec((2, 3), "bf16"),
        og.logical_tensor(0, "bf16", [2, 3], "strided"),
        np.ones((2, 3), BF16),
    ],
    ids=lambda s: type(s).__name__,
)
def test_arguments_are_told_in_any_form(spec):
    (x,) = trace(relu, spec).inputs
    assert (x.name, x.shape, x.dtype) == ("x", (2, 3), "bf16")


def test_dims_may_be_unknown():
    model = trace(lambda x: x @ np.ones((3, 2), np.float32), ((-1, 3), "f32")).compile()
    for rows in (1, 2, 5):
        got = model(np.ones((rows, 3), np.float32))
        np.testing.assert_array_equal(got, np.full((rows, 2), 3, np.float32))


def test_strides_of_a_logical_tensor_are_kept():
    b = trace(relu, og.logical_tensor(0, "f32", [2, 3], [1, 2]))
    assert b.inputs[0].strides == (1, 2)


def test_a_single_result_is_the_only_output():
    b = trace(relu, SPEC)
    assert isinstance(b, og.GraphBuilder)
    assert list(b.outputs) == ["output0"]
    np.testing.assert_array_equal(b.compile()(X), np.maximum(X, 0))
    assert list(trace(lambda x: x.relu(name="r"), SPEC).outputs) == ["r"]


@pytest.mark.parametrize("sequence", [tuple, list])
def test_a_sequence_of_results_gives_outputs_in_order(sequence):
    b = trace(lambda x: sequence([x.abs(), x, x.relu(name="r"), -x]), SPEC)
    assert list(b.outputs) == ["output0", "output1", "r", "output3"]
    for got, expected in zip(b.compile()(X), [abs(X), X, np.maximum(X, 0), -X], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_dict_of_results_names_outputs_in_order():
    b = trace(lambda x: {"z": x.abs(name="ignored"), "a": x.relu(), "x": x}, SPEC)
    model = b.compile()
    assert model.output_names == ("z", "a", "x")
    for got, expected in zip(model(X), [abs(X), np.maximum(X, 0), X], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_sequence_of_one_is_one_output():
    assert list(trace(lambda x: (x.relu(),), SPEC).outputs) == ["output0"]


@pytest.mark.parametrize("empty", [(), [], {}], ids=repr)
def test_a_function_without_results_does_not_compile(empty):
    with pytest.raises(og.InvalidGraphError, match="no output"):
        trace(lambda x: empty, SPEC).compile()


@pytest.mark.parametrize(
    "wrong", [None, 1.0, X, "x", {1}, iter([])], ids=lambda w: type(w).__name__
)
def test_a_result_of_another_type_is_refused_with_the_function_s_name(wrong):
    def model(x):
        return wrong

    text = f"model must return a Value, a sequence or a dict of them, got {type(wrong).__name__}"
    with pytest.raises(TypeError, match=text):
        trace(model, SPEC)


@pytest.mark.parametrize("make", [lambda x: [x, 1], lambda x: {"y": X}, lambda x: ([x, "x"],)])
def test_every_result_must_be_a_value(make):
    with pytest.raises(TypeError, match=r"must return a Value, .*, got (int|ndarray|str)"):
        trace(make, SPEC)


def test_a_wrong_number_of_arguments_is_python_s_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        trace(Layer.static, SPEC)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        trace(relu, SPEC, SPEC)


def test_a_wrong_spec_is_refused():
    with pytest.raises(TypeError, match=r"expected a TensorSpec, \(shape, dtype\).*got int"):
        trace(relu, 5)
    with pytest.raises(og.InvalidArgumentsError, match="'float33' is not a data type"):
        trace(relu, ((2,), "float33"))


def test_a_wrong_op_shows_the_function_s_line():
    def model(x):
        return x @ x

    with pytest.raises(og.InvalidShapeError, match=r"op \(MatMul\)") as error:
        trace(model, SPEC)
    assert any(str(entry.path) == __file__ and entry.name == "model" for entry in error.traceback)
    b = trace(lambda x: x**0.3, SPEC)
    with pytest.raises(og.UnimplementedError, match=rf"made at {__file__}:\d+"):
        b.compile(fallback="error")


def test_options_reach_the_builder():
    b = trace(relu, SPEC, fpmath_mode="bf16", apply_to_int=True)
    assert (b.engine_kind, b.fpmath_mode) == (og.engine.cpu, og.fpmath_mode.bf16)
    assert b.apply_to_int is True
    with pytest.raises(og.InvalidArgumentsError, match="'tpu'"):
        trace(relu, SPEC, engine_kind="tpu")


# -- jit


def test_calls_of_one_shape_and_type_are_compiled_once():
    traced = []

    @jit
    def double(x):
        traced.append(x.shape)
        return x + x

    for i in range(3):
        np.testing.assert_array_equal(double(X + i), 2 * (X + i))
        assert info(double) == (i, 1, 0, 1)
    assert traced == [(2, 3)]


def test_shapes_and_data_types_make_models_of_their_own():
    f = jit(warn=False)(relu)
    arrays = [
        X,
        X.T.copy(),
        X.reshape(6),
        X.reshape(1, 2, 3),
        X.astype(BF16),
        X.astype(np.float16),
        np.zeros((0, 3), np.float32),
        np.array(-1, np.float32),
    ]
    for _ in range(2):
        for a in arrays:
            np.testing.assert_array_equal(f(a), np.maximum(a, a.dtype.type(0)), strict=True)
    assert info(f) == (8, 8, 0, 8)
    assert len({id(f.model(a)) for a in arrays}) == 8


def test_strides_and_values_make_no_models_of_their_own():
    f = jit(relu)
    for a in (X, -X, np.asfortranarray(X), X[:, ::-1]):
        np.testing.assert_array_equal(f(a), np.maximum(a, 0))
    assert info(f) == (3, 1, 0, 1)


def test_all_arguments_count():
    f = jit(lambda x, y: x + y)
    for y in (X, X[0], X[:, :1].copy(), X):
        np.testing.assert_array_equal(f(X, y), X + y)
    assert info(f) == (1, 3, 0, 3)


def test_the_least_recently_used_model_goes_first():
    f = jit(maxsize=2)(relu)
    a, b, c = (np.ones(n, np.float32) for n in (1, 2, 3))
    f(a), f(b), f(a)
    assert info(f) == (1, 2, 0, 2)
    f(c)  # b goes, which was used before a
    assert info(f) == (1, 3, 1, 2)
    f(a)
    assert info(f) == (2, 3, 1, 2)
    f(b)
    assert info(f) == (2, 4, 2, 2)
    f(a)
    assert info(f) == (3, 4, 2, 2)
    f(c)
    assert info(f) == (3, 5, 3, 2)


def test_a_model_that_was_evicted_is_given_back():
    f = jit(maxsize=1)(relu)
    model = f.model(X)
    gone = weakref.ref(model)
    f(X[0])
    np.testing.assert_array_equal(model(X), np.maximum(X, 0))  # as long as somebody has it
    del model
    gc.collect()
    assert gone() is None


def test_cache_info_tells_what_lru_cache_does():
    f = jit(maxsize=7)(relu)
    f(X), f(X)
    assert f.cache_info() == JitInfo(hits=1, misses=1, evictions=0, maxsize=7, currsize=1)
    assert jit(relu).cache_info() == JitInfo(0, 0, 0, 32, 0)
    assert repr(f) == f"<jit of relu: {f.cache_info()}>"


def test_cache_clear_drops_models_and_counts():
    f = jit(maxsize=1)(relu)
    f(X), f(X), f(X[0])
    model = f.model(X[0])
    f.cache_clear()
    assert f.cache_info() == JitInfo(0, 0, 0, 1, 0)
    np.testing.assert_array_equal(f(X[0]), np.maximum(X[0], 0))
    assert f.model(X[0]) is not model
    assert info(f) == (1, 1, 0, 1)


@pytest.mark.parametrize("maxsize", [0, -1])
def test_a_cache_must_hold_one_model(maxsize):
    with pytest.raises(og.InvalidArgumentsError, match=f"at least 1, got {maxsize}"):
        jit(maxsize=maxsize)(relu)


def test_it_is_a_decorator_with_and_without_options():
    @jit
    def plain(x):
        """Plain."""
        return x * 2.0

    @jit()
    def called(x):
        return x * 2.0

    @jit(maxsize=3, fallback="error", threads=1, fpmath_mode="bf16")
    def cube(x):
        """Cube."""
        return x * x * x

    for f in (plain, called):
        np.testing.assert_array_equal(f(X), X * 2)
    np.testing.assert_allclose(cube(X), X**3, rtol=1e-6)
    assert (plain.__name__, plain.__doc__) == ("plain", "Plain.")
    assert (cube.__name__, cube.__doc__) == ("cube", "Cube.")
    model = cube.model(X)
    assert (model.name, model.threads) == ("cube", 1)
    assert model.graph.get_fpmath_mode()[0] is og.fpmath_mode.bf16
    with pytest.raises(og.UnimplementedError, match="fallback='error'"):
        jit(lambda x: x**0.3, fallback="error")(X)


def test_an_unknown_option_is_a_type_error():
    with pytest.raises(TypeError, match="nonsense"):
        jit(nonsense=1)(relu)(X)


def test_model_gives_the_model_that_a_call_runs():
    f = jit(lambda x, w: x @ w)
    w = np.ones((3, 2), np.float32)
    model = f.model(X, w)
    assert isinstance(model, og.CompiledGraph)
    assert [v.name for v in model.inputs] == ["x", "w"]
    f(X, w)
    assert model.stats().calls == 1
    assert f.model(X, w) is model


Pair = namedtuple("Pair", "low high")


@dataclass
class State:
    """A result with parts."""

    mean: Any
    rest: Any


def test_a_result_keeps_its_structure():
    def parts(x):
        return {"a": abs(x), "s": State(x + 1, [Pair(x * 2, x - 1), (x.relu(),)])}

    made, expected = jit(parts)(X), parts_of(X)
    assert list(made) == ["a", "s"]
    assert isinstance(made["s"], State)
    assert isinstance(made["s"].rest, list) and isinstance(made["s"].rest[0], Pair)
    np.testing.assert_array_equal(made["a"], expected[0])
    np.testing.assert_array_equal(made["s"].mean, expected[1])
    np.testing.assert_array_equal(made["s"].rest[0].low, expected[2])
    np.testing.assert_array_equal(made["s"].rest[0].high, expected[3])
    np.testing.assert_array_equal(made["s"].rest[1][0], expected[4])
    names = ("a", "s/mean", "s/rest/0/low", "s/rest/0/high", "s/rest/1/0")
    assert jit(parts).model(X).output_names == names


@dataclass
class Doubled:
    """A result that changes its parts when it is made."""

    rest: Any = field(init=False)
    number: Any

    def __post_init__(self):
        self.rest, self.number = self.number.sum(), self.number * 2
        assert self.half.shape == self.number.shape

    @functools.cached_property
    def half(self):
        return self.number / 2


def test_a_result_is_made_once():
    made = jit(Doubled)(X)
    np.testing.assert_array_equal(made.number, X * 2)
    np.testing.assert_allclose(made.rest, X.sum(), rtol=1e-6)
    np.testing.assert_array_equal(made.half, X)


def parts_of(x):
    return abs(x), x + 1, x * 2, x - 1, np.maximum(x, 0)


def test_f64_is_taken_as_f32_if_asked():
    table, x = np.arange(6.0).reshape(2, 3) / 7, X.astype(np.float64)
    made = jit(dtype="f32")(lambda v: v * table + 0.1)(x)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, x * table + 0.1, rtol=1e-6)
    with pytest.raises(
        og.InvalidArgumentsError, match="dtype must be one of 'f32', None, got 'bf16'"
    ):
        jit(dtype="bf16")(lambda v: v)(X)


def test_out_is_written_and_returned():
    f, y = jit(relu), np.full((2, 3), np.nan, np.float32)
    assert f(X, out=y) is y
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_numpy_scalars_are_arrays_of_rank_0():
    got = jit(relu)(np.float32(-2))
    assert (got.shape, got.dtype, got) == ((), np.float32, 0)


WRONG = [[1, 2], None, 2.0, 3, "x", (X,), X.view(np.matrix), np.ma.masked_array(X, X > 0)]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_array_is_a_type_error_that_names_function_and_argument(wrong):
    @jit
    def model(x, y):
        return x + y

    text = f"model: argument 1 must be an array or support DLPack, got {type(wrong).__name__}"
    with pytest.raises(TypeError, match=text):
        model(X, wrong)
    assert info(model) == (0, 0, 0, 0)


def test_an_array_of_a_type_that_onednn_lacks_is_refused():
    f = jit(relu)
    with pytest.raises(
        og.InvalidDataTypeError,
        match=r"relu: argument 0: oneDNN has no float64.*og\.jit\(dtype=\"f32\"\)",
    ):
        f(X.astype(np.float64))
    assert info(f) == (0, 0, 0, 0)


def test_a_wrong_number_of_arrays_is_python_s_own_error():
    f = jit(relu)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        f()
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        f(X, X)


def test_a_function_that_fails_is_tried_again_and_keeps_nothing():
    fails = True

    @jit
    def moody(x):
        if fails:
            raise ZeroDivisionError("mine")
        return x.relu()

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="mine"):
            moody(X)
    assert moody.cache_info().currsize == 0
    fails = False
    np.testing.assert_array_equal(moody(X), np.maximum(X, 0))
    assert (moody.cache_info().hits, moody.cache_info().currsize) == (0, 1)


class Torchlike:
    """A tensor of another library: a dtype of its own, read by DLPack."""

    class DType:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            return f"torch.{self.name}"

    def __init__(self, array, dtype):
        self.array = array
        self.shape = array.shape
        self.dtype = self.DType(dtype)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tensors_of_torch_are_taken_by_dlpack():
    f = jit(relu)
    np.testing.assert_array_equal(f(Torchlike(X, "float32")), np.maximum(X, 0))
    f(X)
    assert info(f) == (1, 1, 0, 1)  # the same model as NumPy's float32


def test_a_type_of_torch_that_onednn_lacks_is_refused():
    with pytest.raises(og.InvalidArgumentsError, match="complex32"):
        jit(relu)(Torchlike(X, "complex32"))
    with pytest.raises(og.InvalidGraphOpError, match="got c64"):  # host steps take it
        jit(relu)(Torchlike(X, "complex64"))


def test_torchs_negative_bit_is_refused():
    given = Torchlike(X, "float32")
    given.is_neg = lambda: True
    b = og.GraphBuilder()
    b.output(b.input(X.shape).relu())
    with pytest.raises(og.InvalidArgumentsError, match=r"negative bit.*resolve_neg\(\)"):
        b.compile()(given)


def test_threads_share_one_model():
    traced = []

    @jit
    def f(x):
        traced.append(x)
        return x.relu()

    def work(_):
        for _ in range(20):
            np.testing.assert_array_equal(f(X), np.maximum(X, 0))

    in_threads(4, work)
    assert len(traced) == 1
    assert info(f) == (79, 1, 0, 1)


def test_a_function_may_call_another_that_is_traced_with_it():
    outer = jit(lambda x: relu(x) + relu(-x))
    np.testing.assert_array_equal(outer(X), abs(X))


class Dense:
    def __init__(self, weights):
        self.weights = np.asarray(weights, np.float32)

    @og.jit
    def forward(self, x):
        """Multiply."""
        return (x @ self.weights).relu()


def test_a_method_has_models_of_its_own_for_each_instance():
    x = np.float32([[1, -2]])
    one, two = Dense([[1], [0]]), Dense([[0], [-3]])
    np.testing.assert_array_equal(one.forward(x), [[1]])
    np.testing.assert_array_equal(two.forward(x), [[6]])
    assert one.forward is one.forward
    assert one.forward is not two.forward
    one.forward(x)
    assert one.forward.cache_info()[:2] == (1, 1)
    assert two.forward.cache_info()[:2] == (0, 1)
    assert Dense.forward.cache_info().currsize == 0
    assert one.forward.__doc__ == "Multiply."
    assert [v.name for v in one.forward.model(x).inputs] == ["x"]


def test_what_a_method_reads_is_constant_until_its_cache_is_cleared():
    x, layer = np.float32([[1, 2]]), Dense([[1], [1]])
    assert layer.forward(x) == 3
    layer.weights = np.float32([[10], [10]])
    assert layer.forward(x) == 3
    layer.forward.cache_clear()
    assert layer.forward(x) == 30


def test_an_instance_goes_with_its_models_at_once():
    layer = Dense([[1], [1]])
    layer.forward(np.float32([[1, 2]]))
    gone = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert gone() is None
    finally:
        gc.enable()


def test_a_method_of_an_instance_without_dict_is_refused_by_name():
    class Slotted:
        __slots__ = ()

        @og.jit
        def forward(self, x):
            return x.relu()

    with pytest.raises(TypeError, match="jit of forward: instances of Slotted have no __dict__"):
        Slotted().forward(np.float32([1]))


def test_static_and_class_methods_are_functions():
    class Ops:
        @staticmethod
        @og.jit
        def double(x):
            return x + x

    np.testing.assert_array_equal(Ops.double(np.float32([1])), [2])
    np.testing.assert_array_equal(Ops().double(np.float32([1])), [2])

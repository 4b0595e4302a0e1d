"""Host steps: Python functions as steps of a model, and data types that oneDNN lacks."""

import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og
from onednn_graph_py.base.dtypes import HOST_DTYPES


def doubled(x):
    return x * x.dtype.type(2)


def fails(x):
    raise ZeroDivisionError("no such luck")


def chain(function=doubled, shape=(4, 8), outputs=None, **options):
    """ReLU, a function, a product."""
    b = og.GraphBuilder()
    x = b.input(shape, "f32", name="x")
    y = b.call(function, x.relu(), outputs=outputs or [(shape, "f32")], name="middle")
    b.output(y @ np.eye(shape[-1], dtype=np.float32))
    return b.compile(**options)


def kinds(model, *shapes):
    return [s.implementation for s in model.steps(*shapes)]


def test_a_function_runs_between_partitions():
    model = chain()
    assert kinds(model) == ["oneDNN", "host", "oneDNN"]
    assert [s.ops for s in model.steps()] == [("ReLU",), ("Call",), ("MatMul",)]
    assert model.steps()[1].names == ("middle",)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    np.testing.assert_array_equal(model(x), 2 * np.maximum(x, 0))
    assert model.verify(x)


def test_a_function_of_nothing_runs_at_each_call():
    count = iter(range(10))
    b = og.GraphBuilder()
    b.output(b.call(lambda: np.full(3, next(count), np.float32), outputs=[((3,), "f32")]).relu())
    model = b.compile()
    assert model().tolist() == [0, 0, 0]
    assert model().tolist() == [1, 1, 1]


def test_neighbours_run_in_one_step():
    b = og.GraphBuilder()
    x = b.input((2, 3), "f32", name="x")
    first = b.call(doubled, x, outputs=[((2, 3), "f32")], name="first")
    both = b.call(lambda a, c: (a + c, a - c), first, x, outputs=[((2, 3), "f32")] * 2, name="both")
    b.output(both[0].relu(), both[1])
    model = b.compile()
    assert [s.names for s in model.steps() if s.implementation == "host"] == [("first", "both")]
    x = np.float32([[1, -2, 3], [0, 5, -6]])
    total, difference = model(x)
    np.testing.assert_array_equal(total, np.maximum(3 * x, 0))
    np.testing.assert_array_equal(difference, x)


@pytest.mark.parametrize("dtype", [*HOST_DTYPES, "boolean", "s32", "bf16", "f16", "u8"])
def test_data_types_pass_between_host_steps(dtype):
    of = og.dtypes.array_dtype(dtype)
    values = np.array([[0, 1, 2], [3, 100, 5]]).astype(of)
    b = og.GraphBuilder()
    x = b.input((2, 3), dtype, name="x")
    same = b.call(lambda a: a.copy(), x, outputs=[((2, 3), dtype)])
    b.output(same=same, part=same[:, 1:], scalar=same[1, 1], given=x[0])
    model = b.compile()
    same, part, scalar, given = model(values)
    for array, expected in ((same, values), (part, values[:, 1:]), (given, values[0])):
        assert array.dtype == of
        np.testing.assert_array_equal(array, expected)
    assert scalar.shape == () and scalar == values[1, 1]
    np.testing.assert_array_equal(model(values[::-1].T.copy().T)[0], values[::-1])


@pytest.mark.parametrize("dtype", [*HOST_DTYPES, "s32", "f32"])
def test_a_function_reads_any_view(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(og.dtypes.array_dtype(dtype))
    b = og.GraphBuilder()
    x = b.input((2, 3, 4), dtype)
    views = {
        "last": lambda a: a[:, -1],
        "element": lambda a: a[1, 2, 3],
        "steps": lambda a: a[:, ::2, 1::2],
        "none": lambda a: a[:, 1:1],
        "transposed": lambda a: a.transpose((2, 0, 1))[1:, :, 1],
        "repeated": lambda a: (
            a.expand((5, 2, 3, 4))[:, 1]
            if isinstance(a, og.Value)
            else (np.broadcast_to(a, (5, 2, 3, 4))[:, 1])
        ),
    }
    made = {k: v(x) for k, v in views.items()}
    b.output(
        **{k: b.call(np.copy, v, outputs=[(v.shape, dtype)]) for k, v in made.items()},
    )
    for got, view in zip(b.compile()(values), views.values(), strict=True):
        np.testing.assert_array_equal(got, view(values))


def test_whole_numbers_choose_rows():
    table = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    b = og.GraphBuilder()
    ids = b.input((2, -1), "s64", name="ids")
    rows = b.call(lambda t, i: t[i], table, ids, outputs=[((2, -1, 4), "f32")])
    b.output(rows.relu())
    model = b.compile()
    for n in (3, 1, 5, 0):
        ids = np.random.default_rng(n).integers(0, 10, (2, n))
        np.testing.assert_array_equal(model(ids), np.maximum(table[ids], 0))


def test_unknown_dims_follow_from_a_function_of_shapes():
    b = og.GraphBuilder()
    x = b.input((-1, -1), "f32", name="x")
    y = b.call(
        lambda a: np.concatenate([a, a]),
        x,
        outputs=lambda shape: [((2 * shape[0] if shape[0] >= 0 else -1, shape[1]), "f32")],
    )
    assert y.shape == (-1, -1)
    b.output(y.abs())
    model = b.compile()
    for shape in ((2, 3), (1, 4)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(model(x), np.abs(np.concatenate([x, x])))


def test_what_comes_back_to_a_partition_does_not_make_a_circle():
    """oneDNN would fuse both ReLUs with the product, as it does not see the host step between."""
    b = og.GraphBuilder()
    x = b.input((4, 4), "f32", name="x")
    made = x @ np.eye(4, dtype=np.float32)
    shifted = b.call(lambda a: a + np.float32(1), made, outputs=[((4, 4), "f32")])
    b.output(made * shifted)
    model = b.compile()
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    np.testing.assert_allclose(model(x), x * (x + 1), rtol=1e-6)
    assert model.verify(x)


@pytest.mark.parametrize("with_residual", [False, True])
def test_layers_with_host_steps_between(with_residual):
    b = og.GraphBuilder()
    x = b.input((3, 8), "f32", name="x")
    random = np.random.default_rng(0)
    y = x
    for i in range(4):
        weights = (random.standard_normal((8, 8)) / 3).astype(np.float32)
        z = b.call(lambda a: a * np.float32(0.5), (y @ weights).relu(), outputs=[((3, 8), "f32")])
        y = z + y if with_residual else z
        if i == 1:
            y = y.softmax(axis=-1)
    b.output(y)
    assert b.compile().verify()


# -- what the function does wrong


def test_an_error_reaches_the_caller_with_the_name_of_the_step():
    model = chain(fails)
    x = np.ones((4, 8), np.float32)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="no such luck") as caught:
            model(x)
        assert "middle" in caught.value.__notes__[0]
        assert "test_host_steps.py" in caught.value.__notes__[0]


def test_a_model_is_usable_after_an_error():
    wrong = [True]

    def sometimes(x):
        if wrong.pop() if wrong else False:
            raise KeyboardInterrupt
        return x * np.float32(2)

    model = chain(sometimes)
    x = np.ones((4, 8), np.float32)
    with pytest.raises(KeyboardInterrupt):
        model(x)
    np.testing.assert_array_equal(model(x), 2 * x)


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda x: x[:2], og.InvalidShapeError, "'middle'.*must have the shape 4x8, got 2x8"),
        (
            lambda x: x.astype(np.float64),
            og.InvalidDataTypeError,
            r"'middle'.*must be f32 \(NumPy's float32\), got float64",
        ),
        (lambda x: (x, x), og.InvalidArgumentsError, "'middle'.*must return 1 arrays, got 2"),
        (lambda x: None, TypeError, "'middle'.*must be a NumPy array, got NoneType"),
        (lambda x: x.tolist(), og.InvalidArgumentsError, "'middle'.*must return 1 arrays, got 4"),
    ],
)
def test_a_function_that_returns_something_else(function, error, match):
    model = chain(function)
    with pytest.raises(error, match=match):
        model(np.ones((4, 8), np.float32))


def test_inputs_are_read_only():
    def writes(x):
        x[0] = 0
        return x

    x = np.ones((4, 8), np.float32)
    for function in (writes, lambda a: np.negative(a, out=a)):
        with pytest.raises(ValueError, match="read-only") as caught:
            chain(function)(x)
        assert "middle" in caught.value.__notes__[0]
    assert (x == 1).all()


def test_functions_of_one_step_get_arrays_of_their_own():
    seen = []

    def keep(*arrays):
        seen.append(arrays)
        return arrays[0] + 1

    b = og.GraphBuilder()
    x = b.input((2, 3), name="x")
    outputs = [((2, 3), "f32")]
    first = b.call(keep, x, x, outputs=outputs)
    b.output(b.call(keep, first, x, outputs=outputs))
    model = b.compile()
    assert [s.implementation for s in model.steps()] == ["host"]
    given = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(model(given), given + 2)
    arrays = [a for call in seen for a in call]
    assert len({id(a) for a in arrays}) == 4
    assert not any(a.flags.writeable for a in arrays)
    assert all(np.shares_memory(a, given) for a in (arrays[0], arrays[1], arrays[3]))


def test_what_a_function_keeps_stays_in_memory():
    """A function may keep its arrays; nothing reads memory that is gone.

    What later steps write there is another matter: any bits, NaN among them.
    """
    kept = []

    def keeps(x):
        kept.append(x)
        return x

    for _ in range(3):
        chain(keeps)(np.ones((4, 8), np.float32))
    gc.collect()
    sizes = (32, 64, 128, 1024)
    others = [np.full(size, -7.25, np.float32) for size in sizes for _ in range(100)]
    assert not any((x == -7.25).any() for x in kept)
    assert len(others) == 400
    b = og.GraphBuilder()
    x = b.input((1 << 20,), "f32", name="x")
    b.output(b.call(keeps, x, outputs=[((1 << 20,), "f32")]))
    kept.clear()
    given = np.ones(1 << 20, np.float32)
    alive = weakref.ref(given)
    b.compile()(given)
    del given
    gc.collect()
    assert alive() is not None and (kept[0] == 1).all()
    kept.clear()
    gc.collect()
    assert alive() is None


def test_a_function_may_call_the_model_again():
    depth = []

    def again(x):
        if len(depth) < 3:
            depth.append(1)
            return model(x)
        return x

    model = chain(again)
    x = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(model(x), x)
    assert len(depth) == 3


def test_a_bound_call_that_calls_itself_is_refused():
    """It would wait for itself, for ever, and without the GIL."""
    model = chain(lambda x: bound() or x)
    bound = model.bind([np.ones((4, 8), np.float32)])
    for _ in range(2):
        with pytest.raises(og.InvalidArgumentsError, match="a host step calls the bound call that"):
            bound()


def test_threads_call_at_once():
    model = chain(lambda x: x + np.float32(1))

    def call(n):
        x = np.full((4, 8), n, np.float32)
        for _ in range(200):
            assert (model(x) == n + 1).all()

    in_threads(4, call)


# -- around it


def test_it_pickles_where_the_function_does():
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    model = chain()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(x), model(x))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(chain(lambda a: a))


def test_files_refuse_it_by_name(tmp_path):
    b = og.GraphBuilder()
    x = b.input((2,), "f32", name="x")
    b.output(b.call(doubled, x.relu(), outputs=[((2,), "f32")], name="by hand").abs())
    for write in (
        lambda: b.save(tmp_path / "g.json"),
        lambda: b.to_cpp(),
        lambda: b.to_python(),
        lambda: b.compile().save(tmp_path / "g.json"),
    ):
        with pytest.raises(og.InvalidGraphError, match=r"host step .*'by hand'"):
            write()
    assert not list(tmp_path.iterdir())


def test_it_is_shown():
    model = chain()
    drawn = model.diagram().mermaid()
    assert "middle" in drawn and "Python" in drawn
    told = str(model.explain(seconds=0.05))
    assert "host" in told and "Call" in told
    with og.profile() as p:
        model(np.ones((4, 8), np.float32))
    assert [s.implementation for s in p.steps] == ["oneDNN", "host", "oneDNN"]


def test_bound_calls_and_outputs():
    model = chain()
    x, y = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    bound = model.bind([x], y)
    bound()
    np.testing.assert_array_equal(y, 2 * x)
    x[:] = 3
    bound()
    np.testing.assert_array_equal(y, 2 * x)


def test_bfloat16_rounds_as_numpy_does():
    b = og.GraphBuilder()
    x = b.input((64,), "bf16", name="x")
    third = ml_dtypes.bfloat16(1 / 3)
    b.output(b.call(lambda a: a * third, x, outputs=[((64,), "bf16")]))
    x = np.linspace(-4, 4, 64).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(b.compile()(x), x * third)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"function": 3}, TypeError, "function must be callable, got int"),
        ({"outputs": [((4, -1), "f32")]}, og.InvalidShapeError, "no dim of its inputs is"),
        ({"outputs": [((4, -2), "f32")]}, og.InvalidShapeError, "not negative"),
        ({"outputs": [((4,), "f31")]}, ValueError, "f31"),
        ({"outputs": [((4,), "s4")]}, og.InvalidDataTypeError, "packed s4"),
        ({"outputs": []}, og.InvalidArgumentsError, "outputs must not be empty"),
        ({"outputs": 3}, TypeError, "pairs of shape and data type"),
        ({"outputs": ["f32"]}, TypeError, "pairs of shape and data type"),
        ({"outputs": lambda s: 3}, og.InvalidShapeError, "pairs of shape and data type"),
        ({"outputs": lambda s: [((s[1],), "f32")]}, og.InvalidShapeError, "index out of range"),
        ({"outputs": lambda s: [((8 // 0,), "f32")]}, og.InvalidShapeError, "by zero"),
        ({"values": ["text"]}, og.InvalidDataTypeError, "str|<U4"),
    ],
)
def test_wrong_arguments(arguments, error, match):
    b = og.GraphBuilder()
    x = b.input((4,), "f32", name="x")
    given = {"function": doubled, "values": [x], "outputs": [((4,), "f32")], **arguments}
    with pytest.raises(error, match=match):
        b.call(given["function"], *given["values"], outputs=given["outputs"], name="it")
    assert not b.nodes and not b.constants


def test_outputs_whose_number_depends_on_sizes_are_refused():
    b = og.GraphBuilder()
    x = b.input((-1,), name="x")
    b.output(b.call(doubled, x, outputs=lambda s: [(s, "f32")] * (2 if s[0] > 3 else 1), name="it"))
    model = b.compile()
    np.testing.assert_array_equal(model(np.ones(3, np.float32)), np.full(3, 2))
    with pytest.raises(og.InvalidShapeError, match=r"'it'.*for inputs of 4: zip"):
        model(np.ones(4, np.float32))


def test_outputs_compute_with_sizes_that_are_not_known_yet():
    b = og.GraphBuilder()
    x = b.input((-1, 3))
    b.output(b.call(lambda a: a[: len(a) // 2] * 2, x, outputs=lambda s: [((s[0] // 2, 3), "f32")]))
    model = b.compile()
    for rows in (5, 8):
        array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(model(array), array[: rows // 2] * 2)


def test_ambiguous_unknown_dims():
    b = og.GraphBuilder()
    x, y = b.input((-1, 2), "f32", name="x"), b.input((2, 2, -1), "f32", name="y")
    with pytest.raises(og.InvalidShapeError, match=r"dim 1 .*more than one dim of its inputs"):
        b.call(doubled, x, y, outputs=[((4, -1), "f32")])
    assert b.call(doubled, x, y, outputs=[((-1, 4), "f32")]).shape == (-1, 4)


@pytest.mark.parametrize("dtype", HOST_DTYPES)
def test_ops_refuse_what_only_host_steps_read(dtype):
    b = og.GraphBuilder()
    x = b.input((4,), dtype, name="x")
    with pytest.raises(og.OneDNNError, match=rf"ReLU.*{dtype}"):
        x.relu()
    with pytest.raises(og.OneDNNError, match=f"Add.*{dtype}"):
        x.add(x)


def test_inputs_of_other_types_are_refused():
    b = og.GraphBuilder()
    b.output(b.call(doubled, b.input((4,), "f64", name="x"), outputs=[((4,), "f64")]))
    model = b.compile()
    with pytest.raises(og.InvalidDataTypeError, match=r"'x' must be f64 .*got float32"):
        model(np.ones(4, np.float32))
    with pytest.raises(og.InvalidShapeError, match="'x' must have the shape 4, got 5"):
        model(np.ones(5))
    with pytest.raises(og.InvalidDataTypeError, match="out 'output0' must be f64"):
        model(np.ones(4), out=np.ones(4, np.float32))
    np.testing.assert_array_equal(model(np.ones(8)[::2]), np.full(4, 2.0))

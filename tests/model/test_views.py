"""Views of values: NumPy's basic indices, split, squeeze, expand."""

import numpy as np
import pytest
from graphs import needs
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_graph_py as og
from onednn_graph_py.base.linked import linked_version
from onednn_graph_py.machine.cpu import lacks

rng = np.random.default_rng(0)


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


INDICES = [
    (slice(None), slice(1, 9, 2)),
    (slice(None), slice(None, 4)),
    (Ellipsis, None),
    (slice(None), -1),
    (0,),
    -1,
    (None, slice(2, 3), Ellipsis),
    (slice(5, 100),),
    (slice(-2, None), slice(-3, -1)),
    (slice(3, 1),),
    (slice(None, None, 2**63),),
    (slice(4, None, 2**63),),
    (slice(None, None, 3), slice(None, None, 5)),
    (2, 3),
    Ellipsis,
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_numpys(index):
    x = numbers(4, 12)
    b = og.GraphBuilder()
    value = b.input((4, 12), "f32", name="x")
    part = value[index]
    assert part.shape == x[index].shape
    doubled = value * 2
    b.output(input=part, relu=part.relu(), made=doubled[index])
    got = b.compile()(x)
    for array, expected in zip(got, (x[index], np.maximum(x[index], 0), 2 * x[index]), strict=True):
        assert array.shape == expected.shape
        np.testing.assert_array_equal(array, expected)


@given(data=st.data(), shape=st.lists(st.integers(0, 5), min_size=1, max_size=4))
@settings(max_examples=60)
def test_random_indices_are_numpys(data, shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    parts = []
    for n in shape:
        parts.append(
            data.draw(
                st.one_of(
                    st.slices(n).filter(lambda s: s.step is None or s.step > 0),
                    st.integers(-n, n - 1) if n else st.just(slice(None)),
                )
            )
        )
    index = tuple(parts[: data.draw(st.integers(0, len(parts)))])
    b = og.GraphBuilder()
    value = b.input(tuple(shape), "f32", name="x")
    part = value[index]
    b.output(part=part, after=b.call(np.negative, part, outputs=[(part.shape, "f32")]))
    got, after = b.compile()(x)
    np.testing.assert_array_equal(got, x[index])
    np.testing.assert_array_equal(after, -x[index])


def test_a_view_that_a_product_reads_is_not_copied():
    x, w = numbers(4, 64), numbers(32, 8)
    b = og.GraphBuilder()
    value = b.input((4, 64), "f32", name="x")
    b.output(value[:, 32:] @ w)
    model = b.compile()
    assert [s.implementation for s in model.steps()] == ["view", "oneDNN"]
    assert model.steps()[0].ops == ("Slice",)
    np.testing.assert_allclose(model(x), x[:, 32:] @ w, rtol=1e-5, atol=1e-5)
    assert model.verify(x)


def test_a_view_without_gaps_is_not_copied_for_any_op():
    x = numbers(4, 64)
    b = og.GraphBuilder()
    value = b.input((4, 64), "f32", name="x")
    b.output(value[1:3].softmax(axis=-1))
    model = b.compile()
    assert [s.implementation for s in model.steps()] == ["view", "oneDNN"]
    assert model.verify(x)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "s8", "u8", "s32"])
def test_a_view_with_gaps_is_copied_once_for_ops_that_are_slow_with_them(dtype):
    b = og.GraphBuilder()
    value = b.input((4, 64), dtype, name="x")
    half = value[:, ::2]
    if dtype in ("f32", "bf16", "f16"):
        b.output(half.relu(), half.softmax(axis=-1))
    else:
        b.output(b.call(np.copy, half, outputs=[((4, 32), dtype)]))
    try:
        model = b.compile()
    except og.UnimplementedError as e:
        assert lacks(dtype), e
        return
    steps = [s for s in model.steps() if s.ops == ("Slice",)]
    copied = dtype in ("f32", "bf16", "f16")
    assert [s.implementation != "view" for s in steps] == [copied]
    assert model.verify()


def test_a_chain_of_views():
    x = numbers(2, 6, 8)
    b = og.GraphBuilder()
    value = b.input((2, 6, 8), "f32", name="x")
    y = value[:, 1:5][..., ::2][:, None, 1]
    b.output(y, y.relu())
    expected = x[:, 1:5][..., ::2][:, None, 1]
    got = b.compile()(x)
    np.testing.assert_array_equal(got[0], expected)
    np.testing.assert_array_equal(got[1], np.maximum(expected, 0))


def test_views_of_constants_are_constants():
    w = numbers(16, 8)
    b = og.GraphBuilder()
    x = b.input((4, 8), "f32", name="x")
    b.output(x @ b.constant(w)[::2])
    model = b.compile()
    assert [s.implementation for s in model.steps()] == ["constant", "oneDNN"]
    given = numbers(4, 8)
    np.testing.assert_allclose(model(given), given @ w[::2], rtol=1e-5, atol=1e-5)
    as_it_lies = b.compile(fold_constants=False)
    assert [s.implementation for s in as_it_lies.steps()] == ["view", "oneDNN"]
    np.testing.assert_allclose(as_it_lies(given), given @ w[::2], rtol=1e-5, atol=1e-5)


def test_unknown_dims():
    b = og.GraphBuilder()
    x = b.input((-1, 8), "f32", name="x")
    last = x[-1]
    assert x[1:].shape == (-1, 8) and last.shape == (8,)
    b.output(x[1:], last.relu(), x[:2])
    model = b.compile()
    for n in (1, 2, 5):
        given = numbers(n, 8)
        rest, last, two = model(given)
        np.testing.assert_array_equal(rest, given[1:])
        np.testing.assert_array_equal(last, np.maximum(given[-1], 0))
        np.testing.assert_array_equal(two, given[:2])
    with pytest.raises(IndexError, match="index -1 is out of range for dim 0 of 0x8"):
        model(numbers(0, 8))


def test_split_squeeze_expand():
    x = numbers(2, 1, 6)
    b = og.GraphBuilder()
    value = b.input((2, 1, 6), "f32", name="x")
    parts = value.split(3, axis=-1)
    uneven = value.split([1, 4], axis=2)
    b.output(
        *parts, *uneven, value.squeeze(1), value.expand((5, 2, 4, -1)), value.squeeze(1).relu()
    )
    got = b.compile()(x)
    expected = [
        *np.split(x, 3, axis=-1),
        *np.split(x, [1, 4], axis=2),
        x.squeeze(1),
        np.broadcast_to(x, (5, 2, 4, 6)),
        np.maximum(x.squeeze(1), 0),
    ]
    for array, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_select_reads_a_condition_that_is_repeated():
    b = og.GraphBuilder()
    condition, x = b.input((6,), "boolean"), b.input((2, 4, 6))
    b.output(b.select(condition.expand((2, 4, 6)), x, b.constant(np.float32([-np.inf]))))
    seen, values = np.arange(6) % 2 == 0, numbers(2, 4, 6)
    assert np.array_equal(b.compile()(seen, values), np.where(seen, values, -np.inf))


def test_ops_read_a_repeated_dim():
    x, y = numbers(1, 8, 4), numbers(3, 4, 5)
    b = og.GraphBuilder()
    one, other = b.input(x.shape, name="x"), b.input(y.shape, name="y")
    wide = one.expand((3, 8, 4))
    b.output(wide @ other, b.static_reshape(wide, shape=(24, 4), special_zero=False))
    product, flat = b.compile()(x, y)
    np.testing.assert_allclose(product, np.broadcast_to(x, (3, 8, 4)) @ y, rtol=1e-5)
    np.testing.assert_array_equal(flat, np.broadcast_to(x, (3, 8, 4)).reshape(24, 4))


@pytest.mark.parametrize("dims", [(2, 3, 17, 29), (-1, 3, -1, -1)])
def test_ops_read_every_second_row_of_an_odd_number(dims):
    """OneDNN refuses strides by which a channel would begin before the one before it ends."""
    weights = numbers(4, 3, 3, 3)
    b = og.GraphBuilder()
    part = b.input(dims, name="x")[:, :, ::2, ::2]
    window = dict.fromkeys(("strides", "dilations", "pads_begin", "pads_end"), (1, 1))
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    b.output(b.convolution(part, b.constant(weights), **window, **formats))
    model = b.compile(fallback="error")
    for shape in [(2, 3, 17, 29), (1, 3, 33, 20)][: 2 if -1 in dims else 1]:
        assert model.verify(numbers(*shape))


def test_the_memory_of_a_viewed_tensor_is_not_reused_too_early():
    x = numbers(8, 64)
    b = og.GraphBuilder()
    value = b.input((8, 64), "f32", name="x")
    made = value.exp()
    half = made[:, 32:]
    y = value
    for _ in range(4):  # steps that need memory of their own
        y = b.call(lambda a: a + np.float32(1), y.relu(), outputs=[((8, 64), "f32")])
    b.output(half @ np.eye(32, dtype=np.float32), y)
    got, _ = b.compile()(x)
    np.testing.assert_allclose(got, np.exp(x)[:, 32:], rtol=1e-6)


def test_in_place_ops_do_not_overwrite_what_a_view_shows():
    x = numbers(8, 8)
    b = og.GraphBuilder()
    value = b.input((8, 8), "f32", name="x")
    made = value.exp()
    top = made[:4]
    b.output(made.relu().softmax(axis=-1), top.sqrt())
    first, second = b.compile()(x)
    np.testing.assert_allclose(second, np.sqrt(np.exp(x)[:4]), rtol=1e-6)
    assert b.compile().verify(x)
    assert first.shape == (8, 8)


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (slice(None, None, 0), ValueError, "positive step, got 0"),
        ([0, 4], og.InvalidArgumentsError, "index 4 is out of bounds for axis 0"),
        (np.array([0.5, 1]), og.InvalidArgumentsError, "arrays used as indices must be of integer"),
        (True, og.InvalidArgumentsError, "got bool"),
        (1.0, og.InvalidArgumentsError, "got float"),
        (4, IndexError, "index 4 is out of range for dim 0 of 4x12"),
        ((0, -13), IndexError, "index -13 is out of range for dim 1"),
        ((0, 0, 0), IndexError, "at most 2 indices, got 3"),
        ((Ellipsis, Ellipsis), IndexError, "only one ellipsis"),
    ],
    ids=str,
)
def test_wrong_indices(index, error, match):
    b = og.GraphBuilder()
    x = b.input((4, 12), "f32", name="x")
    with pytest.raises(error, match=match):
        x[index]
    assert not b.nodes


def test_wrong_views():
    b = og.GraphBuilder()
    x = b.input((4, 12), "f32", name="x")
    with pytest.raises(og.InvalidShapeError, match="squeezed must be 1, got 12"):
        x.squeeze(1)
    with pytest.raises(IndexError, match="axis 2 is out of range for 2 dims"):
        x.squeeze(2)
    with pytest.raises(og.InvalidShapeError, match="multiple of 5 parts, got 12"):
        x.split(5, axis=1)
    with pytest.raises(og.InvalidShapeError, match="can't expand 4x12 to 5x12"):
        x.expand((5, 12))
    with pytest.raises(og.InvalidShapeError, match="can't expand 4x12 to 12"):
        x.expand((12,))
    with pytest.raises(og.InvalidShapeError, match="-1 or not negative"):
        x.expand((-1, 4, 12))
    with pytest.raises(og.InvalidDataTypeError, match="packed s4"):
        b.constant(np.zeros((2, 4)), "s4")[0]
    with pytest.raises(TypeError, match="has no length: its first dim is not known"):
        list(b.input((-1, 2)))
    assert not b.nodes


def test_views_are_shown_and_refused_by_files():
    b = og.GraphBuilder()
    x = b.input((4, 64), "f32", name="x")
    b.output(x[:, 32:] @ numbers(32, 8))
    model = b.compile()
    drawn = model.diagram().mermaid()
    assert "Slice" in drawn and "not run" in drawn
    assert "view" in str(model.explain(seconds=0.05))
    with pytest.raises(og.InvalidGraphError, match=r"view op \(Slice\)"):
        model.save("never.json")


@pytest.mark.parametrize(
    "kind", ["Reorder", "StaticReshape", "StaticTranspose", "ReLU", "TypeCast"]
)
@pytest.mark.parametrize("strides", [(64, 2), (64, 1), (1, 4), (3, 40)])
def test_inputs_with_gaps(kind, strides):
    """Left the choice, oneDNN gives Reorder and StaticReshape gaps too, and fills only a part."""
    memory = numbers(3 * strides[0] + 31 * strides[1] + 1)
    x = np.lib.stride_tricks.as_strided(memory, (4, 32), [4 * s for s in strides])
    attrs = {
        "StaticReshape": {"shape": (32, 4), "special_zero": False},
        "StaticTranspose": {"order": (1, 0)},
    }.get(kind, {})
    if kind == "TypeCast":
        needs("bf16")
    b = og.GraphBuilder()
    value = b.input((4, 32), "f32", strides=strides, name="x")
    made = b.add_op(kind, [value], attrs, dtype="bf16" if kind == "TypeCast" else None)
    b.output(made.abs())
    for policy in ("fusion", "debug"):
        assert b.compile(policy=policy).verify(x)


def test_onednn_fills_only_a_part_where_its_reorder_chooses_gaps():
    """The defect behind the last test, in oneDNN alone; 3.13 refuses the layout."""
    source = og.logical_tensor(0, "f32", [4, 32], [64, 2])
    op = og.op(0, "Reorder", [source], [og.logical_tensor(1, "f32", [4, 32], "any")], "r")
    g = og.graph("cpu")
    g.add_op(op)
    g.finalize()
    (partition,) = g.get_partitions()
    engine = og.engine("cpu", 0)
    free = og.logical_tensor(1, "f32", [4, 32], "any")
    if linked_version() >= (3, 13):
        with pytest.raises(og.InvalidArgumentsError, match="compile failed"):
            partition.compile([source], [free], engine)
        return
    compiled = partition.compile([source], [free], engine)
    made = compiled.query_logical_tensor(1)
    assert made.get_strides() == [64, 2]
    x = numbers(4, 64)
    target = og.tensor(made, engine)
    target.numpy()[...] = 0
    stream = og.stream(engine)
    compiled.execute(stream, [og.tensor(source, engine, x[:, ::2])], [target])
    stream.wait()
    assert not np.array_equal(target.numpy(), x[:, ::2])


def test_batches_are_joined_across_a_dim_of_1_with_gaps():
    """oneDNN takes the stride of the last of the batch dims for that of all."""
    b = og.GraphBuilder()
    q = b.input((1, 3, 1, 7, 16), strides=(390, 130, 130, 16, 1))
    k, mask = b.input((1, 3, 1, 9, 16)), b.input((1, 3, 1, 7, 9))
    scores = q.matmul(k, transpose_b=True) / 4.0 + mask
    b.output(scores.softmax(axis=-1) @ b.input((1, 3, 1, 9, 16)))
    assert b.compile().verify()


@pytest.mark.parametrize("batch_stride", [2048, 32, 16, 1])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_strides_of_a_dim_of_1_mean_nothing(batch_stride, transpose_b):
    """With a small one MatMul reads other elements (3.7.2, brg_matmul of AVX-512)."""
    b = og.GraphBuilder()
    x = b.input((1, 2, 5, 16 if transpose_b else 64), "f32", name="x")
    y = b.input((1, 2, 64, 16), "f32", name="y", strides=(batch_stride, 16, 32, 1))
    b.output(x.matmul(y, transpose_b=transpose_b))
    given = numbers(*x.shape)
    other = numbers(64, 1, 2, 16).transpose(1, 2, 0, 3)
    expected = given @ (other.swapaxes(-1, -2) if transpose_b else other)
    np.testing.assert_allclose(b.compile()(given, other), expected, rtol=1e-5, atol=1e-4)

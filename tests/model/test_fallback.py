"""What stands in for kernels that oneDNN lacks; which ones it lacks is chosen here."""

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.model.planning import partitions

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.fixture
def without(monkeypatch):
    """Make models of one op a partition, none of which is there for the given kinds."""

    def lack(*kinds):
        groups = partitions.groups

        def fewer(draft, nodes):
            return [
                (members, None if members[0].kind in kinds else partition)
                for members, partition in groups(draft, nodes)
            ]

        monkeypatch.setattr(partitions, "groups", fewer)
        return {"policy": "debug", "warn": False}

    return lack


def implementations(model):
    return [s.implementation for s in model.steps()]


def transposed_and_reshaped(b, x):
    y = x.static_transpose(order=(2, 0, 1))
    z = x.static_reshape(shape=(6, 4), special_zero=False)
    return y, z


def test_reshapes_and_transposes_are_views_of_what_oneDNN_made(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    y, z = transposed_and_reshaped(b, b.input(X.shape).square())
    b.output(y=y.relu(), z=z.abs())
    model = b.compile(**options)
    assert sorted(implementations(model)) == ["oneDNN"] * 3 + ["view"] * 2
    made_y, made_z = model(X)
    np.testing.assert_array_equal(made_y, (X * X).transpose(2, 0, 1))
    np.testing.assert_array_equal(made_z, (X * X).reshape(6, 4))
    with pytest.raises(AssertionError, match="view: StaticTranspose"):
        og.assert_fused(model, 3)


def test_a_reduction_over_dims_of_1_needs_no_kernel(without):
    options = {**without("ReduceSum"), "fallback": "error"}

    def summed(dims):
        b = og.GraphBuilder()
        b.output(b.input(dims).square().reduce_sum(axes=(1,), keep_dims=True).relu())
        return b.compile(**options)

    np.testing.assert_array_equal(summed((4, 1))(X[0, 0, :, None]), X[0, 0, :, None] ** 2)
    with pytest.raises(og.UnimplementedError, match="no cpu kernel for this op alone"):
        summed((4, 2))


def test_4_bit_integers_are_read_in_the_order_of_memory():
    numbers = np.arange(15).reshape(3, 5).astype(ml_dtypes.uint4)
    b = og.GraphBuilder()
    x, scales = b.input((3, 5), "u4", strides=(1, 3)), b.constant(np.ones((3, 5), np.float32))
    grouped = {"qtype": "per_group", "axis": 1, "group_shape": (1, 1)}
    b.output(b.dynamic_dequantize(x, scales, **grouped))
    model = b.compile(warn=False)
    assert implementations(model) == ["reference"]
    for given in (numbers, og.dtypes.pack_int4(numbers.T, "u4")):
        np.testing.assert_array_equal(model(given), numbers.astype(np.float32))
        assert model.verify(given).ok


def test_views_of_inputs_constants_and_views(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    x, c = b.input(X.shape), b.constant(X + 1)
    y, z = transposed_and_reshaped(b, x)
    back = y.static_transpose(order=(1, 2, 0)).static_reshape(shape=(24,), special_zero=False)
    moved = c.static_transpose(order=(2, 0, 1))
    b.output(a=y + moved, b=z.abs(), c=back * 2)
    model = b.compile(**options)
    assert implementations(model).count("view") == 5
    first, second, third = model(X)
    np.testing.assert_array_equal(first, (X + (X + 1)).transpose(2, 0, 1))
    np.testing.assert_array_equal(second, np.abs(X).reshape(6, 4))
    np.testing.assert_array_equal(third, X.reshape(24) * 2)


def test_a_view_that_is_an_output_is_copied_out(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    x = b.input(X.shape)
    y, z = transposed_and_reshaped(b, x)
    b.output(y=y, z=z, again=y)
    made = b.compile(**options)(X)
    for array, right in zip(made, (X.transpose(2, 0, 1), X.reshape(6, 4)), strict=False):
        np.testing.assert_array_equal(array, right)
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, X)
    np.testing.assert_array_equal(made[2], made[0])


def test_elements_that_have_to_move_are_computed(without):
    """A transposed tensor can't be reshaped in place."""
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    y = b.input(X.shape).static_transpose(order=(2, 0, 1))
    b.output(y.static_reshape(shape=(8, 3), special_zero=False).abs())
    model = b.compile(**options)
    assert implementations(model) == ["view", "reference", "oneDNN"]
    np.testing.assert_array_equal(model(X), np.abs(X.transpose(2, 0, 1).reshape(8, 3)))


def test_memory_of_a_viewed_tensor_is_not_given_to_another(without):
    """It lives as long as the last reader of a view, and nothing runs in place on it."""
    options = without("StaticTranspose")
    for seed in range(8):
        random = np.random.default_rng(seed)
        b = og.GraphBuilder()
        x = b.input((4, 6))
        base = x.square()
        view = base.static_transpose(order=(1, 0))
        busy = x
        for _ in range(int(random.integers(1, 5))):
            busy = (busy * 0.5).abs() + 1.0
        late = view.relu() + busy.static_transpose(order=(1, 0)).square()
        b.output(late=late, busy=busy, base=base.abs())
        model = b.compile(**options)
        assert "view" in implementations(model)
        assert model.verify(seed=seed), seed


def test_four_bit_integers_are_unpacked_for_numpy(without):
    options = without("DynamicDequantize")
    b = og.GraphBuilder()
    values = np.arange(-8, 8).reshape(4, 4)
    w = b.constant(values, "s4")
    x = b.input((4, 4), "u4", name="x")
    scale = np.float32([0.5])
    b.output(
        w=w.dynamic_dequantize(scale, qtype="per_tensor"),
        x=x.dynamic_dequantize(scale, qtype="per_tensor"),
    )
    given = np.arange(16).reshape(4, 4)
    made = b.compile(**options)(given.astype(ml_dtypes.uint4))
    np.testing.assert_array_equal(made[0], values * np.float32(0.5))
    np.testing.assert_array_equal(made[1], given * np.float32(0.5))


def test_a_partition_that_can_be_run_is(without):
    options = without()
    b = og.GraphBuilder()
    b.output(b.input(X.shape).static_transpose(order=(2, 0, 1)))
    assert implementations(b.compile(**options)) == ["oneDNN"]

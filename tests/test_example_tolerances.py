"""The rule that every tolerance of the examples comes from: tight, and never too tight."""

import ml_dtypes
import numpy as np
import pytest

from onednn_graph_py.examples._bounded import Bounded, Comparison

RANDOM = np.random.default_rng(0)


def uniform(*shape: int) -> np.ndarray:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def is_accepted(got: np.ndarray, expected: Bounded) -> bool:
    return Comparison.of(got, expected).wrong == 0


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_rounding_to_a_type_is_tolerated_and_twice_that_is_not(dtype):
    numbers = RANDOM.uniform(1, 2, 10_000)
    stored = Bounded.exact(numbers).stored(dtype)
    rounded = numbers.astype(np.float32).astype(dtype)
    assert is_accepted(rounded, stored)
    used = Comparison.of(rounded, stored).max_share
    assert used > 0.9, "the bound of a single rounding is reached"
    assert not is_accepted(numbers + 2.1 * (rounded.astype(np.float64) - numbers), stored)


def test_results_flushed_to_zero_are_tolerated():
    smallest = np.finfo(np.float32).smallest_normal
    assert is_accepted(np.zeros(1), Bounded.exact([0.9 * smallest]).stored())
    assert not is_accepted(np.zeros(1), Bounded.exact([3 * smallest]).stored())


@pytest.mark.parametrize("inner", [1, 17, 1024])
def test_every_order_of_summation_in_f32_is_tolerated(inner):
    a, b = uniform(8, inner), uniform(inner, 8)
    expected = Bounded.exact(a).matmul(Bounded.exact(b)).stored()
    products = a[:, :, None] * b
    forwards = products.cumsum(axis=1, dtype=np.float32)[:, -1]
    backwards = products[:, ::-1].cumsum(axis=1, dtype=np.float32)[:, -1]
    for got in (a @ b, forwards, backwards):
        assert is_accepted(got, expected)


def test_a_matrix_product_that_leaves_out_one_term_is_refused():
    a, b = uniform(8, 1024), uniform(1024, 8)
    expected = Bounded.exact(a).matmul(Bounded.exact(b)).stored()
    assert not is_accepted(a[:, :-1] @ b[:-1], expected)


def test_a_product_in_bf16_is_refused_where_f32_is_expected():
    a, b = uniform(8, 64), uniform(64, 8)
    expected = Bounded.exact(a).matmul(Bounded.exact(b)).stored()
    low = a.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert not is_accepted(low @ b, expected)


def test_errors_of_operands_are_carried_along():
    a, b = np.abs(uniform(4, 32)), np.abs(uniform(32, 4))
    inexact = Bounded(a.astype(np.float64), np.full(a.shape, 0.01))
    other = Bounded(b.astype(np.float64), np.full(b.shape, 0.02))
    worst = (inexact.value + inexact.error) @ (other.value + other.error)
    product = inexact.matmul(other)
    assert is_accepted(worst, product)
    assert not is_accepted(worst + 0.001 * (worst - product.value), product)


def test_the_bias_is_part_of_the_sum():
    a, b, bias = uniform(4, 16), uniform(16, 4), uniform(4) * 1000
    expected = Bounded.exact(a).matmul(Bounded.exact(b), Bounded.exact(bias)).stored()
    assert is_accepted(a @ b + bias, expected)
    assert not is_accepted(a @ b, expected)


def test_the_convolution_is_the_sum_over_windows():
    images, weights = uniform(2, 9, 8, 3), uniform(3, 2, 3, 5)
    got = Bounded.exact(images).convolved(Bounded.exact(weights), stride=2).value
    assert got.shape == (2, 4, 4, 5)
    for n, y, x, channel in np.ndindex(got.shape):
        window = images[n, 2 * y : 2 * y + 3, 2 * x : 2 * x + 2].astype(np.float64)
        assert got[n, y, x, channel] == pytest.approx((window * weights[..., channel]).sum())


def test_softmax_in_f32_is_tolerated_and_a_wrong_temperature_is_not():
    scores = (uniform(64, 384) * 10).astype(np.float32)
    scores[:, 300:] = -np.inf

    def softmax(x: np.ndarray) -> np.ndarray:
        weights = np.exp(x - x.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    expected = Bounded.exact(scores).softmax().stored()
    assert softmax(scores).dtype == np.float32
    assert is_accepted(softmax(scores), expected)
    assert not is_accepted(softmax(scores * np.float32(1.001)), expected)


def test_softmax_carries_the_worst_errors_of_its_input():
    scores = uniform(16, 8).astype(np.float64)
    inexact = Bounded(scores, np.full(scores.shape, 0.01))
    weights = np.exp(scores + np.where(np.arange(8) == 3, 0.01, -0.01))
    got = weights / weights.sum(axis=-1, keepdims=True)
    assert is_accepted(got, inexact.softmax())
    used = np.abs(got - inexact.softmax().value)[:, 3] / inexact.softmax().error[:, 3]
    assert used.max() > 0.8


def test_quantization_has_one_right_result_but_at_a_tie():
    expected = Bounded.exact([2.4, 2.5, 2.6, 3.5, 1000, -1000]).quantized(1.0, 10, np.uint8)
    np.testing.assert_array_equal(expected.value, [12, 12, 13, 14, 255, 0])
    np.testing.assert_array_equal(expected.error, [0, 1, 0, 1, 0, 0])


def test_the_error_of_a_quantized_value_is_counted_in_steps():
    inexact = Bounded(np.array([10.0, 10.4]), np.array([0.3, 0.3]))
    np.testing.assert_array_equal(inexact.quantized(0.1, 0, np.uint8).error, [3, 3])
    np.testing.assert_array_equal(inexact.quantized(1.0, 0, np.uint8).error, [0, 1])


def test_dequantization_keeps_the_error_of_a_step():
    got = Bounded(np.array([12.0]), np.array([1.0])).dequantized(0.5, 10)
    assert got.value == [1.0]
    assert got.error == pytest.approx([0.5], rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_finite_number_is_wrong(bad):
    compared = Comparison.of(np.array([1.0, bad]), Bounded.exact([1.0, 1.0]).stored())
    assert (compared.wrong, compared.max_error) == (1, np.inf)


def test_an_exact_match_passes_where_nothing_is_tolerated():
    compared = Comparison.of(np.array([1, 2]), Bounded.exact([1, 2]))
    assert (compared.wrong, compared.differing, compared.max_share) == (0, 0, 0)


def test_another_shape_is_not_compared():
    with pytest.raises(ValueError, match=r"expected shape \(2,\), got \(1,\)"):
        Comparison.of(np.zeros(1), Bounded.exact([0, 0]))


def test_comparisons_of_parts_add_up():
    parts = [
        Comparison.of(np.array([1.0, 5.0]), Bounded.exact([1.0, 2.0])),
        Comparison.of(np.array([1.0]), Bounded.exact([1.5]).stored()),
    ]
    whole = Comparison.together(parts)
    assert (whole.elements, whole.differing, whole.wrong) == (3, 2, 2)
    assert (whole.max_error, whole.tolerance, whole.largest) == (3.0, 0.0, 2.0)

"""Builders with arrays, and attention in float64: what the tests of blocks share."""

import ml_dtypes
import numpy as np
import pytest
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks

DTYPES = [
    pytest.param(d, marks=pytest.mark.skipif(lacks(d) is not None, reason=str(lacks(d))))
    for d in ("f32", "bf16", "f16")
]
NUMPY = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s8": np.int8,
    "u8": np.uint8,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}
# Half the distance of two neighbours at 1, that is what one rounding may cost.
ROUNDING = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}
F32 = ROUNDING["f32"]
# Between the first MatMul and SoftMax.
F32_SCORES = LINKED >= (3, 8)


def exact(array):
    """In float64."""
    return np.asarray(array).astype(np.float64)


class Inputs:
    """A builder with an input for each array."""

    def __init__(self, **options):
        self.b = og.GraphBuilder(**options)
        self.arrays = []

    def __call__(self, array, strides=None):
        self.arrays.append(array)
        return self.b.input(array.shape, og.dtypes.data_type_of(array.dtype).name, strides=strides)

    def partitions(self):
        """How many ops each has; all are supported."""
        partitions = self.b.graph.get_partitions()
        assert all(p.is_supported() for p in partitions)
        return sorted(len(p.get_ops()) for p in partitions)

    def run(self, y, **options):
        self.b.output(y)
        return exact(self.b.compile(**options)(*self.arrays))

    def assert_one_partition(self):
        assert len(self.partitions()) == 1, self.partitions()


def for_integers(dtype):
    """Inputs of a builder as compressed weights need it."""
    return Inputs(fpmath_mode="strict" if dtype == "f32" else dtype, apply_to_int=True)


def assert_within(actual, expected, bound):
    assert actual.shape == expected.shape
    error = np.abs(actual - expected)
    bound = np.broadcast_to(bound, expected.shape)
    worst = np.unravel_index(np.argmax(error - bound), error.shape)
    assert (error <= bound).all(), f"error {error[worst]} over {bound[worst]} at {worst}"


def attention(q, k, v, scale, mask, dtype):
    """The result and how far from it a right one may be."""
    q, k, v = exact(q), exact(k), exact(v)
    stored = F32 if F32_SCORES else ROUNDING[dtype]
    scores = q @ k.swapaxes(-1, -2) * scale
    masked = scores + mask
    largest = masked.max(-1, keepdims=True)
    weights = np.exp(masked - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    weights = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    y = weights @ v
    # Of a score: sums of products in f32, then a rounding each for product, scale and mask, and
    # one of the scale itself.
    of_sums = 2 * (q.shape[-1] + 2) * F32 * (np.abs(q) @ np.abs(k).swapaxes(-1, -2)) * scale
    added = np.where(np.isinf(mask), 0, np.abs(mask))
    of_scores = of_sums + 4 * stored * (np.abs(scores) + added)
    # exp turns these into relative errors of weights, at most twice after the division.
    relative = 2 * of_scores.max(-1, keepdims=True)
    relative = relative + 2 * ROUNDING[dtype] + 2 * (k.shape[-2] + 8) * F32
    bound = relative * (weights @ np.abs(v)) + ROUNDING[dtype] * np.abs(y) + 1e-30
    return y, 1.1 * bound


def repeated(array, heads):
    """Keys or values for each query head."""
    return np.repeat(array, heads // array.shape[1], 1)


def causal_mask(queries, keys, offset):
    seen = np.arange(queries)[:, None] + offset >= np.arange(keys)
    return np.where(seen, 0.0, -np.inf)

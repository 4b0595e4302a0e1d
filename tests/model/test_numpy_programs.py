"""Programs in plain NumPy, traced without a change and equal to NumPy."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import onednn_graph_py as og
from benchmarks._numpy_programs import RNG, TABLE, gpt, kalman, mel, vit, weights

IDS = RNG.integers(0, 61, (2, 17)).astype(np.int32)
SQUARE = weights(4, 4)
PROGRAMS = {
    "gpt": (gpt, IDS, TABLE),
    "vit": (vit, weights(3, 3, 16, 24)),
    "kalman": (kalman, weights(4, 1), SQUARE @ SQUARE.T + np.eye(4, dtype="f4"), weights(2, 1)),
    "mel": (mel, weights(5, 21, 64)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_equal_numpys(name):
    program, *arrays = PROGRAMS[name]
    made, expected = og.jit(program)(*arrays), program(*arrays)
    if not isinstance(expected, dict):
        made, expected = {"": made}, {"": expected}
    assert list(made) == list(expected)
    for key, wanted in expected.items():
        np.testing.assert_allclose(made[key], wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


def k_means(x, centers):
    distances = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(-1)
    nearest = distances.argmin(axis=1)
    member = (nearest[:, None] == np.arange(len(centers))).astype(x.dtype)
    return (member.T @ x) / np.maximum(member.sum(0)[:, None], 1), nearest


def rotated(x):
    turns = np.arange(8)[:, None] / 10000 ** (np.arange(0, 32, 2) / 32)
    cos, sin = np.cos(turns).astype(x.dtype), np.sin(turns).astype(x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def convolved(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows, w)


def ridge(x):
    y = x[:, 0] * 2
    return np.linalg.solve(x.T @ x + 0.1 * np.eye(4, dtype=x.dtype), x.T @ y)


def quantized(x):
    scale = np.abs(x).max() / 127
    return np.clip(np.rint(x / scale), -127, 127).astype(np.int8).astype(x.dtype) * scale


def lowest(x):
    return np.sort(x, axis=1)[:, ::-1][:, -3:], np.argsort(-x, axis=1)[:, -3:]


def transported(costs):
    kernel, u = np.exp(-costs / 2), np.ones(len(costs), dtype=costs.dtype)
    for _ in range(4):
        v = 1 / (kernel.T @ u)
        u = 1 / (kernel @ v)
    return u[:, None] * kernel * v


def flags(x):
    x = x.copy() if isinstance(x, np.ndarray) else x
    high = x > 0.5
    high |= x < -0.5
    return np.where(high & ~np.isnan(x), x, 0), high.sum(axis=(0, 1)), np.linalg.norm(x)


MORE = {
    "k means": (k_means, weights(50, 3) * 7, weights(4, 3)),
    "rotary embedding": (rotated, weights(2, 8, 32)),
    "convolution": (convolved, weights(2, 3, 8, 7), weights(4, 3, 3, 2)),
    "ridge regression": (ridge, weights(15, 4)),
    "quantization": (quantized, weights(5, 9)),
    "sorting": (lowest, weights(5, 9)),
    "optimal transport": (transported, weights(16, 16)),
    "flags": (flags, weights(3, 5, 4)),
    "filter": (lambda x: np.convolve(x, np.float32([0.1, 0.2, 0.4]), mode="same"), weights(200)),
}


@pytest.mark.parametrize("name", MORE)
def test_programs_of_others_equal_numpys(name):
    program, *arrays = MORE[name]
    made, expected = og.jit(program)(*arrays), program(*arrays)
    if not isinstance(expected, tuple):
        made, expected = (made,), (expected,)
    for got, wanted in zip(made, expected, strict=True):
        assert (got.shape, got.dtype) == (np.shape(wanted), np.asarray(wanted).dtype)
        np.testing.assert_allclose(got, wanted, rtol=5e-5, atol=2e-5 * np.abs(wanted).max())


def test_attention_and_layer_norm_of_numpy_are_fused():
    steps = [s.ops for s in og.jit(gpt).model(IDS, TABLE).steps()]
    assert sum({"SoftMax", "MatMul", "Add"} <= {*ops} for ops in steps) == 2
    assert [ops for ops in steps if "LayerNorm" in ops] == [("LayerNorm",)] * 4
    host = [s.names for s in og.jit(gpt).model(IDS, TABLE).steps() if s.implementation == "host"]
    assert host == [("x[...]",)]


def test_scikit_learns_models_are_traced():
    pytest.importorskip("sklearn")
    program = """
        import numpy as np, onednn_graph_py as og, sklearn
        from sklearn.decomposition import PCA
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.neural_network import MLPClassifier
        from sklearn.utils._array_api import move_estimator_to

        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((60, 6)).astype("f4"), rng.integers(0, 3, 60)
        line = LinearRegression().fit(x, x @ rng.standard_normal((6, 2)).astype("f4"))
        functions = [PCA(3, svd_solver="full").fit(x).transform, line.predict]
        models = [MLPClassifier((8,), activation=a).fit(x, y) for a in ("relu", "logistic")]
        models += [MLPClassifier((8,)).fit(x, y > 0), LogisticRegression().fit(x, y)]
        expected = [f(x) for f in functions] + [m.predict_proba(x) for m in models]

        # Here scikit-learn wants arrays of one namespace, as it says.
        def moved(model):
            def predict_proba(v):
                own = move_estimator_to(model, v.__array_namespace__(), None)
                return own.predict_proba(v)
            return predict_proba

        functions += map(moved, models)
        # Whether numbers are finite is not known before a model runs.
        sklearn.set_config(array_api_dispatch=True, assume_finite=True)
        for function, wanted in zip(functions, expected, strict=True):
            np.testing.assert_allclose(og.jit(function)(x), wanted, atol=1e-5)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

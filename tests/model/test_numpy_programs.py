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
        from functools import partial
        from sklearn.decomposition import PCA
        from sklearn.linear_model import LinearRegression
        from sklearn.neural_network import MLPClassifier
        from sklearn.utils._array_api import _estimator_with_converted_arrays as converted

        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((60, 6)).astype("f4"), rng.integers(0, 3, 60)
        line = LinearRegression().fit(x, x @ rng.standard_normal((6, 2)).astype("f4"))
        functions = [PCA(3, svd_solver="full").fit(x).transform, line.predict]
        networks = [MLPClassifier((8,), activation=a).fit(x, y) for a in ("relu", "tanh")]
        expected = [f(x) for f in functions] + [n.predict_proba(x) for n in networks]
        # Between layers scikit-learn wants arrays of one namespace, as its converter makes them.
        def network(n, v):
            constant = lambda a: v.builder.constant(a) if a.dtype == "f4" else a
            return converted(n, constant).predict_proba(v)

        functions += [partial(network, n) for n in networks]
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

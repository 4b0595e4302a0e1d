"""What a trait of the table promises holds for the ops that have it, and for no others.

Asked of what the reference computes in NumPy, wherever the promise is about numbers.
"""

import ast
from pathlib import Path

import numpy as np
from op_probes import type_combinations

import onednn_graph_py as og
from gallery._epilogue import UNARY
from onednn_graph_py.ops import OPS, check
from onednn_graph_py.ops.lookup import with_attribute, with_trait
from onednn_graph_py.ops.traits import TRAITS
from onednn_graph_py.reference import call_of, evaluate
from onednn_graph_py.reference.registry import implemented

NEWEST = (99, 0)
PARAMETERS = {"gamma": 1.0, "variance": 1.0, "beta": 0.0, "mean": 0.0, "slope": 0.1}


def drawn(kind, scale=1.0, seed=0, shapes=None):
    """Inputs of an op's sample; parameters of a normalization are those that change nothing."""
    schema = OPS[kind].at(NEWEST)
    random = np.random.default_rng(seed)
    types = type_combinations(kind, version=NEWEST)[0][0]
    made = []
    for i, (shape, dtype) in enumerate(zip(shapes or schema.sample[0], types, strict=True)):
        port = schema.port("inputs", i).name
        array = scale * random.standard_normal(shape)
        array = np.full(shape, PARAMETERS[port]) if port in PARAMETERS else array
        made.append(og.reference.round_to(array, dtype))
    return made


def computed(kind, inputs):
    """An op's results, not rounded."""
    made = type_combinations(kind, version=NEWEST)[0][1]
    outputs = [(None, dtype) for dtype in made]
    call = call_of(kind, inputs, OPS[kind].sample[1], outputs or None, version=NEWEST)
    return evaluate(call, inputs)


def those(promise):
    """The kinds, of all that compute something, of which a promise holds."""
    return {kind for kind in OPS if kind in implemented() and promise(kind)}


# -- the words


def test_every_word_is_explained_and_some_op_has_it():
    assert set(TRAITS) == {w for row in OPS.values() for w in row.traits}
    assert all(promise.endswith(".") for promise in TRAITS.values())
    assert all(len(set(row.traits)) == len(row.traits) for row in OPS.values())


def test_every_word_is_asked_for():
    asked = {
        word.value
        for path in Path(og.ops.__file__).parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "with_trait"
        for word in node.args
        if isinstance(word, ast.Constant)
    }
    assert asked == set(TRAITS)


def test_kinds_with_several_traits_have_each():
    assert with_trait("elementwise", "keeps") == {"Reorder", "TypeCast"}
    assert with_trait("moves") is with_trait("moves"), "made once"


# -- the promises


def is_local(kind):
    """Whether an element of the first input changes that of the result, and no other."""
    inputs = drawn(kind)
    before, changed = computed(kind, inputs), set()
    if len(before) != 1 or before[0].shape != inputs[0].shape:
        return False
    for i in range(0, inputs[0].size, 7):
        other = [a.copy() for a in inputs]
        other[0].flat[i] = not other[0].flat[i] if other[0].dtype == bool else 4 - other[0].flat[i]
        same = np.isclose(before[0], computed(kind, other)[0], 0, 0, equal_nan=True)
        changed |= {place - i for place in np.flatnonzero(~same)}
    return changed == {0}


def goes_with_its_place(kind):
    """Whether results are exchanged as the elements of all inputs are."""
    inputs = drawn(kind)
    if len({a.shape for a in inputs}) > 1:
        return False
    order = np.random.default_rng(1).permutation(inputs[0].size)
    exchanged = [a.ravel()[order].reshape(a.shape) for a in inputs]
    before, after = computed(kind, inputs)[0], computed(kind, exchanged)[0]
    return before.shape == after.shape and np.array_equal(
        before.ravel()[order].reshape(before.shape), after, equal_nan=True
    )


def test_elementwise():
    found = those(lambda kind: is_local(kind) and goes_with_its_place(kind))
    assert found - with_trait("elementwise") == with_attribute("zps"), "which may be per channel"
    assert with_trait("elementwise") <= found


def test_channelwise():
    found = {kind for kind in with_attribute("data_format") if is_local(kind)}
    assert found == with_trait("channelwise")


def test_binary():
    def broadcasts(kind):
        try:
            made = check(kind, [((4, 1), None), ((16,), None)], version=NEWEST)
        except og.OneDNNError:
            return False
        return [spec.shape for spec in made] == [(4, 16)]

    assert {kind for kind in OPS if broadcasts(kind)} == with_trait("binary")
    assert with_trait("binary") <= with_trait("elementwise")


def test_epilogue():
    binary = {"Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract"}
    assert with_trait("epilogue") == set(UNARY) | binary
    assert with_trait("epilogue") <= with_trait("elementwise") - with_trait("gradient")


def test_keeps_and_moves():
    def keeps(kind):
        inputs = drawn(kind)
        given = np.concatenate([a.astype(np.float64).ravel() for a in inputs])
        made = np.concatenate([a.astype(np.float64).ravel() for a in computed(kind, inputs)])
        return np.array_equal(np.sort(given), np.sort(made))

    assert those(keeps) == with_trait("keeps")
    assert with_trait("moves") == {
        kind
        for kind in with_trait("keeps")
        if not OPS[kind].inputs[0].variadic
        and OPS[kind].inputs[0].type == OPS[kind].outputs[0].type
    }


def test_converts():
    def in_another_type(kind):
        same_shape = check(kind, [(s, None) for s in OPS[kind].sample[0]], OPS[kind].sample[1],
                           version=NEWEST)[0].shape == OPS[kind].sample[0][0]  # fmt: skip
        types = type_combinations(kind, version=NEWEST)
        return same_shape and all(given[0] != made[0] for given, made in types)

    of_another_meaning = {"GenIndex", "GreaterEqual", "Select"}
    assert those(in_another_type) - of_another_meaning == with_trait("converts")
    floats = {"f32", "bf16", "f16"}
    rows = {kind: OPS[kind] for kind in with_trait("converts")}
    read = {kind: floats & set(row.types[row.inputs[0].type]) for kind, row in rows.items()}
    made = {kind: floats & set(row.types[row.outputs[0].type]) for kind, row in rows.items()}
    assert with_trait("quantizes") == {kind for kind in rows if not made[kind]}
    assert with_trait("dequantizes") == {kind for kind in rows if not read[kind]}


def test_gradient():
    assert with_trait("gradient") == {kind for kind in OPS if "Backward" in kind}


def test_marks():
    assert with_trait("marks") == set(OPS) - implemented()


def test_reduces():
    assert with_trait("reduces") == with_attribute("axes")


def test_product():
    def of_sums_of_products(kind):
        (x, y), (other_x, other_y) = drawn(kind), drawn(kind, seed=1)

        def of(*inputs):
            return computed(kind, inputs)[0]

        return np.allclose(of(x + other_x, y), of(x, y) + of(other_x, y), atol=1e-4) and (
            np.allclose(of(x, y + other_y), of(x, y) + of(x, other_y), atol=1e-4)
        )

    two = {kind for kind in implemented() if len(OPS[kind].sample[0]) == 2}
    candidates = two - with_trait("elementwise") - with_trait("converts")
    assert {kind for kind in candidates if of_sums_of_products(kind)} == with_trait("product")


def test_normalizes():
    def has_a_mean_square_of_one(kind):
        found = [np.mean(computed(kind, drawn(kind, s))[0] ** 2.0) for s in (0.5, 7.0)]
        return np.allclose(found, 1, atol=0.1)

    assert those(has_a_mean_square_of_one) == with_trait("normalizes")


def test_rectifies():
    def rectifies(kind):
        shape = drawn(kind)[0].shape
        above, below = (
            computed(kind, [np.full(shape, x, np.float32), *drawn(kind)[1:]])[0] for x in (10, -10)
        )
        return np.all(np.abs(above - 10) < 1) and np.all(np.abs(below) <= 5)

    candidates = with_trait("elementwise") | with_trait("channelwise")
    candidates -= with_trait("gradient") | with_trait("binary") | {"Select"}
    assert {kind for kind in candidates if rectifies(kind)} == with_trait("rectifies")


def test_squashes():
    def squashes(kind):
        made = computed(kind, drawn(kind, 1000.0))[0]
        return made.dtype == np.float64 and np.abs(made).max() <= 1 and np.ptp(made) > 0.5

    assert those(squashes) - {"Clamp"} == with_trait("squashes"), "its attributes are the limits"


def ratio(y):
    return y[..., 0] / y[..., 1]


STEEP = {
    "Exp": ratio,
    "LogSoftmax": lambda y: ratio(np.exp(y)),
    "Sigmoid": lambda y: ratio(y / (1 - y)),
    "SoftMax": ratio,
    "Tanh": lambda y: np.sqrt(ratio((1 + y) / (1 - y))),
}


def test_steep():
    assert set(STEEP) == with_trait("steep")
    for kind, ratio_of in STEEP.items():
        inputs = drawn(kind)
        difference = (inputs[0][..., 0] - inputs[0][..., 1]).astype(np.float64)
        np.testing.assert_allclose(ratio_of(computed(kind, inputs)[0]), np.exp(difference), 1e-6)

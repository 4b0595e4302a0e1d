"""What front ends share: recipes for what oneDNN lacks, places of ops, options, reports."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.base.arguments import Options
from onednn_graph_py.frontends import recipes
from onednn_graph_py.frontends.division import Division, grouped
from onednn_graph_py.frontends.lowering import NotLowered, Place, Table, holds
from onednn_graph_py.frontends.report import latest_steps, partitions_text

INF = np.float32(np.inf)


def place(*inputs):
    """Return a place in a builder, and its inputs."""
    b = og.GraphBuilder()
    return Place(b), [b.input(shape, dtype) for shape, dtype in inputs]


def run(at, value, *arrays):
    """Run a graph as front ends do: an op without a kernel is an error."""
    at.b.output(value)
    return at.b.compile(fallback="error")(*arrays)


# -- recipes


@pytest.mark.parametrize("exponent", [1, 2, 3, 0.5, -0.5, -1])
def test_a_power_is_what_a_hand_written_graph_gives(exponent):
    x = np.linspace(0.25, 4, 96, dtype=np.float32).reshape(4, 24)
    at, [value] = place((x.shape, "f32"))
    made = run(at, recipes.power(at, value * 1.0, exponent), x)
    b = og.GraphBuilder()
    b.output(b.input(x.shape, "f32") ** exponent)
    np.testing.assert_allclose(made, b.compile()(x), rtol=1e-6)
    np.testing.assert_allclose(made, x**exponent, rtol=1e-5)


def test_a_power_of_many_factors_is_left():
    at, [value] = place(((4, 24), "f32"))
    with pytest.raises(NotLowered, match=r"no kernel for Pow; the exponent is 2\.3"):
        recipes.power(at, value, 2.3)


@pytest.mark.parametrize("x, y", [((4, 24), (4, 24)), ((4, 1), (4, 24)), ((1,), (4, 24))])
@pytest.mark.parametrize("condition", [(4, 24), (1, 24), (4, 1), (24,)])
def test_what_is_not_chosen_does_not_count_even_if_infinite(condition, x, y):
    rng = np.random.default_rng(0)
    asked = rng.integers(0, 2, condition).astype(bool)
    left, right = np.full(x, INF, np.float32), rng.standard_normal(y).astype(np.float32)
    at, [c, one, two] = place((condition, "boolean"), (x, "f32"), (y, "f32"))
    made = run(at, recipes.chosen(at, c, one, two), asked, left, right)
    np.testing.assert_array_equal(made, np.where(asked, left, right))


def test_a_condition_of_unknown_dims_makes_no_nan():
    at, [c, one, two] = place(((-1, 1), "boolean"), ((-1, 24), "f32"), ((-1, 24), "f32"))
    asked, left, right = np.bool_([[1], [0]]), np.full((2, 24), INF), np.ones((2, 24), np.float32)
    made = run(at, recipes.chosen(at, c, one, two), asked, left.astype(np.float32), right)
    np.testing.assert_array_equal(made, np.where(asked, left, right))


@pytest.mark.parametrize("x, y", [((3, 1, 24), (1,)), ((1, 1), (3, 1, 24)), ((3, 2, 1), (24,))])
@pytest.mark.parametrize("condition", [(3, 2, 1), (1, 2, 24)])
def test_a_condition_of_unknown_dims_with_more_elements(condition, x, y):
    rng = np.random.default_rng(0)
    asked = rng.integers(0, 2, condition).astype(bool)
    left, right = np.full(x, INF, np.float32), rng.standard_normal(y).astype(np.float32)
    opened = [tuple(-1 if n == 2 or n == 3 else n for n in dims) for dims in (condition, x, y)]
    at, [c, one, two] = place(*zip(opened, ("boolean", "f32", "f32"), strict=True))
    made = run(at, recipes.chosen(at, c, one, two), asked, left, right)
    np.testing.assert_array_equal(made, np.where(asked, left, right))


def test_a_condition_of_unknown_dims_for_two_numbers_is_left():
    at, [c, one, two] = place(((-1, 3), "boolean"), ((1,), "f32"), ((), "f32"))
    with pytest.raises(NotLowered, match="the condition has more elements than both"):
        recipes.chosen(at, c, one, two)


@pytest.mark.parametrize("method, number", [("reduce_max", -INF), ("reduce_min", INF)])
def test_the_largest_of_infinities_is_one(method, number):
    x = np.float32([[1, 2, number, 4], [number, number, number, number]])
    at, [value] = place((x.shape, "f32"))
    made = run(at, recipes.extreme(at, method, value, [1], False), x)
    np.testing.assert_array_equal(made, x.max(1) if method == "reduce_max" else x.min(1))


@pytest.mark.parametrize("axes", [[2], [3], [2, 3], [1]])
@pytest.mark.parametrize("keep", [False, True])
def test_the_largest_of_an_image_is_a_pool(axes, keep):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
    x[1, 2] = -INF
    at, [value] = place((x.shape, "f32"))
    sides = {"pads_begin": [0, 0], "pads_end": [0, 0]}
    image = at.b.avg_pool(
        value, kernel=[1, 1], strides=[1, 1], **sides, exclude_pad=True, data_format="NCX"
    )
    made = run(at, recipes.extreme(at, "reduce_max", image.leaky_relu(alpha=0.5), axes, keep), x)
    np.testing.assert_array_equal(made, np.where(x < 0, x / 2, x).max(tuple(axes), keepdims=keep))
    kinds = [n.kind for n in at.b.nodes]
    assert ("MaxPool" in kinds) == (axes != [1])
    assert ("ReduceMax" in kinds) == (axes == [1])


@pytest.mark.parametrize("method", ["reduce_sum", "reduce_mean", "reduce_l1", "reduce_l2"])
@pytest.mark.parametrize("axes", [[0], [0, 1], []])
def test_dims_of_one_are_reduced_without_a_kernel(method, axes):
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(1, 1, 24)
    at, [value] = place((x.shape, "f32"))
    made = run(at, recipes.reduced(at, method, value, axes, True), x)
    np.testing.assert_array_equal(made, abs(x) if "_l" in method else x)


def test_all_become_the_upper_limit_if_it_is_below_the_lower():
    x = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 12)
    for low, high in ((-1, 1), (2, 1), (None, 1), (-1, None)):
        at, [value] = place((x.shape, "f32"))
        made = run(at, recipes.clamp(at, value, low, high), x)
        np.testing.assert_array_equal(made, np.clip(x, low, high))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    x = np.linspace(-4, 4, 96, dtype=np.float32).reshape(4, 24)
    at, [value] = place((x.shape, "f32"))
    made = run(at, recipes.gelu(at, value, approximate=approximate), x)
    inside = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    tolerance = 1e-5 if approximate == "tanh" else 2e-3  # between the two
    np.testing.assert_allclose(made, x * (1 + np.tanh(inside)) / 2, atol=tolerance)


# -- places and the table


def test_a_number_is_not_rounded_to_a_smaller_type():
    assert holds(0.5, "bf16") and not holds(0.1, "bf16") and holds(0.1, "f32")
    assert not holds(1e6, "f16") and holds(float("inf"), "f16")


def test_what_is_no_float_is_refused():
    at, [value] = place(((4, 24), "s32"))
    with pytest.raises(NotLowered, match="in floating point only, not in s32"):
        at.need_float(value)
    with pytest.raises(NotLowered, match="does not convert s32 to f32"):
        at.cast(value, "f32")
    with pytest.raises(NotLowered, match="an operand is str"):
        at.operand("1", "f32")


def test_an_op_has_one_lowering():
    table = Table()
    assert table.enters("a", "b")(len) is len and table == {"a": len, "b": len}
    with pytest.raises(AssertionError, match="b has two lowerings"):
        table.enters("b")(len)


# -- division, reports, options


def test_what_is_too_small_gets_a_reason():
    reads = {"a": [], "b": ["a"], "c": ["b"]}
    made = Division.of(reads, reads.__getitem__, {"b": "no op"}, lambda nodes: "c" in nodes)
    assert [(p.nodes, p.is_region) for p in made.parts] == [(("a", "b"), False), (("c",), True)]
    assert made.reasons == {"b": "no op", "a": "too small for a model of its own"}
    assert grouped({"a": "x", "b": "y", "c": "x"}, lambda n: "op") == [
        ("op", "x", ["a", "c"]),
        ("op", "y", ["b"]),
    ]


def test_the_text_of_partitions_begins_with_the_slowest():
    b = og.GraphBuilder()
    x = b.input((4, 24), "f32")
    b.output(b.relu(x), b.softmax(x, axis=1), b.relu(x * 2.0))
    model = b.compile()
    assert latest_steps(None) == ()
    model(np.ones((4, 24), np.float32))
    steps = latest_steps(model)
    assert {*partitions_text(steps)} == {f"       1 x {'+'.join(step.ops)}" for step in steps}
    times = [0.002 if "SoftMax" in s.ops else 0.001 for s in steps]
    assert partitions_text(steps, times)[0] == "       1 x SoftMax: 2.000 ms"


@dataclass(frozen=True)
class Some(Options):
    OWNER: ClassVar[str] = "the test"

    word: Literal["fast", "slow"] = "fast"
    maybe: Literal["fast"] | None = None
    flag: bool = True
    count: int = 1
    limit: int | None = None


@pytest.mark.parametrize(
    "options, message",
    [
        ({"word": "fats"}, r"^word must be one of 'fast', 'slow', got 'fats'; did you mean 'fast'"),
        ({"word": None}, r"^word must be one of 'fast', 'slow', got None$"),
        ({"maybe": "no"}, r"^maybe must be one of 'fast', None, got 'no'$"),
        ({"flag": "yes"}, r"^flag must be one of True, False, got 'yes'$"),
        ({"count": 0}, r"^count must be a whole number, at least 1, got 0$"),
        ({"count": None}, r"^count must be a whole number"),
        ({"limit": True}, r"^limit must be a whole number, at least 1, got True$"),
    ],
)
def test_options_are_of_their_annotations(options, message):
    with pytest.raises(og.InvalidArgumentsError, match=message):
        Some(**options)


def test_numbers_and_bools_of_numpy_become_those_of_python():
    some = Some(flag=np.False_, count=np.int64(3), limit=np.uint8(2), word=np.str_("slow"))
    made = [some.flag, some.count, some.limit, some.word]
    assert made == [False, 3, 2, "slow"]
    assert [*map(type, made)] == [bool, int, int, str]


def test_options_that_there_are_not():
    Some.refuse(["word", "limit"])
    with pytest.raises(og.InvalidArgumentsError, match=r"no option 'cuont'; did you mean 'count'"):
        Some.refuse(["cuont"])
    with pytest.raises(og.InvalidArgumentsError, match="; there are word, maybe, flag, count"):
        Some.refuse(["xyz"])

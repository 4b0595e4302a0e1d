"""benchdnn's options rewrite graphs as there: shapes, layouts, data types, attributes, kinds."""

import math

import numpy as np
import pytest
from benchdnn_rewriting import Rewriting, parse_rewritings
from graphs import SAME_SIZE

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.serialization.links import strides_of, tag_of


def rewritten(build, *words):
    """The document of a graph, with the ids of its inputs and ops as they come, from 0 on."""
    b = og.GraphBuilder()
    b.output(build(b))
    (rewriting,) = parse_rewritings(words)
    return rewriting.apply(serialization.from_builder(b))


def convolved(b):
    x = b.input((2, 8, 10, 10), name="x")
    w = b.input((16, 8, 3, 3), name="w")
    return x.convolution(w, **SAME_SIZE).relu()


def test_shapes_go_through_the_graph():
    made = rewritten(convolved, "--in-shapes=0:4x6x7x9+1:5x6x3x1")
    results = [made.graph[0].outputs[0], made.graph[1].inputs[0], made.graph[1].outputs[0]]
    assert [(t.shape, t.stride) for t in results] == [((4, 5, 7, 11), (385, 77, 11, 1))] * 3
    with pytest.raises(og.OneDNNError, match=r"^graph\[0\]: op 0 .*Convolution"):
        rewritten(convolved, "--in-shapes=0:2x9x10x10")


def test_layouts_go_through_the_graph():
    made = rewritten(convolved, "--in-shapes=0:acdb+1:*72x1x24x8")
    assert [t.stride for t in made.graph[0].inputs] == [(800, 1, 80, 8), (72, 1, 24, 8)]
    assert made.graph[1].outputs[0].stride == (1600, 1, 160, 16)


def test_other_ranks_are_row_major_and_gaps_are_closed():
    def build(b):
        return b.input((4, 6), strides=(8, 1)).relu()

    assert rewritten(build).graph[0].inputs[0].stride == (6, 1)
    assert rewritten(build, "--in-shapes=0:2x3x5").graph[0].outputs[0].stride == (15, 5, 1)
    assert rewritten(build, "--in-shapes=0:-").graph[0].outputs[0].shape == ()


def test_mb_reaches_both_sides_of_a_sum_but_no_mask():
    def build(b):
        q, k, v = (b.input((2, 3, 5, 4), name=n) for n in "qkv")
        left, mask = b.input((2, 3, 5, 4), name="left"), b.input((1, 1, 5, 5), name="mask")
        scores = (q + left).matmul(k, transpose_b=True) + mask
        return (scores.softmax(axis=-1) @ v).static_reshape(shape=(2, 60), special_zero=False)

    made = rewritten(build, "--mb=6", "--in-shapes=1:6x3x5x4+2:6x3x5x4")
    assert [made.tensors()[i].shape[0] for i in range(5)] == [6, 6, 6, 6, 1]
    assert made.graph[-1].values["shape"] == (6, 60)


def test_one_data_type_for_all_leaves_parameters_alone():
    def build(b):
        x, gamma, beta = b.input((2, 8)), b.input((8,)), b.input((8,))
        return x.layer_norm(gamma, beta, keep_stats=False).relu()

    made = rewritten(build, "--dt=bf16")
    assert [t.dtype for t in made.graph[0].inputs] == ["bf16", "f32", "f32"]
    assert made.graph[1].outputs[0].dtype == "bf16"
    assert rewritten(build, "--dt=1:bf16+2:bf16").graph[0].inputs[1].dtype == "bf16"


def test_scales_follow_the_number_of_channels():
    def build(b):
        x = b.input((2, 3), "s8", name="x")
        return x.dequantize(scales=[0.5, 1.0, 2.0], zps=[1, 0, 2], qtype="per_channel", axis=-1)

    values = rewritten(build, "--in-shapes=0:2x5").graph[0].values
    assert (values["scales"], values["zps"]) == ((0.5, 1.0, 2.0, 0.5, 1.0), (1, 0, 2, 0, 0))


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("1:Maximum", lambda x, y: 1 / (1 + np.exp(-np.maximum(np.maximum(x, 0), y)))),
        ("0:undef", lambda x, y: 1 / (1 + np.exp(-(x + y)))),
        ("2:undef", lambda x, y: np.maximum(x, 0) + y),
    ],
)
def test_kinds_change_or_vanish(option, wanted):
    def build(b):
        return (b.input((2, 3)).relu() + b.input((1, 3))).sigmoid()

    model = serialization.to_builder(rewritten(build, f"--op-kind={option}")).compile()
    x, y = np.float32([[1, -2, 3], [4, 5, -6]]), np.float32([[2, 3, 5]])
    np.testing.assert_allclose(model(x, y), wanted(x, y), rtol=1e-5)


def test_lists_of_values_are_combined_and_attributes_have_their_types():
    words = ["--expected-n-partitions=0", "--mb=4,", "--dt=f32,bf16", "--engine=gpu"]
    made = parse_rewritings(words)
    assert [str(r) for r in made[:2]] == [
        "--dt=f32 --mb=4 --engine=gpu --expected-n-partitions=0",
        "--dt=f32 --engine=gpu --expected-n-partitions=0",
    ]
    assert [(r.dtypes, r.mb) for r in made] == [
        ("f32", 4),
        ("f32", None),
        ("bf16", 4),
        ("bf16", None),
    ]
    assert parse_rewritings([]) == [Rewriting()]
    values = rewritten(convolved, "--op-attrs=0:strides:2x2*auto_pad:VALID").graph[0].values
    assert (values["strides"], values["auto_pad"]) == ((2, 2), "VALID")
    with pytest.raises(
        og.InvalidArgumentsError, match=r"expected integers such as 2x2, got '2\.5'"
    ):
        rewritten(convolved, "--op-attrs=0:strides:2.5")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (2, 0, 3), (1, 1, 5, 1)])
def test_tags_and_strides_say_the_same(shape):
    assert strides_of(shape) == tuple(
        math.prod(max(d, 1) for d in shape[i + 1 :]) for i in range(len(shape))
    )
    tag = "abcdefgh"[: len(shape)][::-1]
    array = np.zeros(shape[::-1]).transpose()
    if array.size:
        assert strides_of(shape, tag) == tuple(s // array.itemsize for s in array.strides)
        again = strides_of(shape, tag_of(strides_of(shape, tag), len(shape)))
        wide = [i for i, d in enumerate(shape) if d != 1]  # where a dim of 1 lies is all the same
        assert [again[i] for i in wide] == [strides_of(shape, tag)[i] for i in wide]


@pytest.mark.parametrize("tag", ["ab", "abb", "abz", "abcd"])
def test_a_wrong_tag_is_refused(tag):
    with pytest.raises(og.InvalidArgumentsError, match="the tag of 3 dims must have each letter"):
        strides_of((1, 2, 3), tag)

"""Graph JSON rewritten: shapes, layouts, data types, attributes, kinds, and benchdnn's options."""

import math
import re

import numpy as np
import pytest
from benchdnn_options import Rewriting, parse_rewritings
from benchdnn_rewrite import rewrite
from graphs import SAME_SIZE

import onednn_graph_py as og
from onednn_graph_py import reference, serialization
from onednn_graph_py.serialization.tags import strides_of, tag_of


def document(build):
    b = og.GraphBuilder()
    build(b)
    return serialization.from_builder(b)


def by_name(doc):
    """Ids of the inputs in order, ids of the ops in order."""
    return doc.inputs(), [op.id for op in doc.graph]


@pytest.fixture
def conv():
    """Two ops, channels first."""

    def build(b):
        x = b.input((2, 8, 10, 10), name="x")
        w = b.input((16, 8, 3, 3), name="w")
        b.output(x.convolution(w, **SAME_SIZE).relu())

    return document(build)


def shapes_of(doc):
    return {id: t.shape for id, t in doc.tensors().items()}


# -- shapes


def test_without_options_a_document_stays_what_it_is(conv):
    assert rewrite(conv) == conv
    assert Rewriting().apply(conv) == conv  # nothing in it that inferring would change


def test_shapes_go_through_the_graph(conv):
    (x, w), _ = by_name(conv)
    made = rewrite(conv, shapes={x: (4, 6, 7, 9), w: (5, 6, 3, 1)})
    results = [made.graph[0].outputs[0], made.graph[1].inputs[0], made.graph[1].outputs[0]]
    assert [t.shape for t in results] == [(4, 5, 7, 11)] * 3
    assert [t.stride for t in results] == [(385, 77, 11, 1)] * 3
    assert made.graph[1].outputs[0].id == conv.graph[1].outputs[0].id


def test_a_rewritten_graph_computes_what_its_new_shapes_say(conv):
    (x, w), (op, _) = by_name(conv)
    made = rewrite(conv, shapes={x: (1, 4, 7, 6), w: (3, 4, 3, 3)}, attrs={op: {"strides": (2, 2)}})
    builder = serialization.to_builder(made)
    a, c = og.fill_inputs(builder)
    (want,) = reference.run("Convolution", [a, c], made.graph[0].values)
    assert want.shape == (1, 3, 4, 3)
    np.testing.assert_allclose(builder.compile()(a, c), np.maximum(want, 0), atol=1e-5)


def test_attributes_change_the_shapes_that_follow(conv):
    _, (op, _) = by_name(conv)
    made = rewrite(conv, attrs={op: {"strides": (2, 2), "auto_pad": "VALID"}})
    assert made.graph[0].values["auto_pad"] == "VALID"
    assert made.graph[1].outputs[0].shape == (2, 16, 4, 4)


def test_a_kept_shape_of_a_tensor_in_the_middle_is_not_touched(conv):
    (_, w), _ = by_name(conv)
    made = rewrite(conv, properties={w: "constant"})
    assert shapes_of(made) == shapes_of(conv)
    assert made.tensors()[w].property_type == "constant"


def test_shapes_that_do_not_fit_name_op_and_place(conv):
    (x, _), _ = by_name(conv)
    with pytest.raises(og.InvalidShapeError, match=r"^graph\[0\]: op 0 \(Convolution\): .*weights"):
        rewrite(conv, shapes={x: (2, 9, 10, 10)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shapes": {77: (1,)}}, "shapes: tensor 77 is not in the graph; the graph's inputs are"),
        ({"strides": {77: "ab"}}, "strides: tensor 77 is not in the graph"),
        ({"dtypes": {77: "f32"}}, "dtypes: tensor 77 is not in the graph"),
        ({"properties": {77: "constant"}}, "properties: tensor 77 is not in the graph"),
        ({"attrs": {77: {"alpha": 1.0}}}, "attrs: there is no op 77 in the graph, only 0, 1"),
        ({"kinds": {77: "GELU"}}, "kinds: there is no op 77"),
        ({"attrs": {1: {"alpha": 1.0}}}, r"graph\[1\] \(op 1\): ReLU has no attribute 'alpha'"),
        ({"kinds": {1: "MatMul"}}, r"graph\[1\]: ReLU can't become MatMul"),
        ({"dtypes": "s8"}, "dtypes: expected one of f32, bf16, f16 for the whole graph, got 's8'"),
        ({"mb": -1}, "mb must be at least 0"),
    ],
)
def test_what_is_not_there_is_refused_by_name(conv, options, message):
    with pytest.raises(og.OneDNNError, match=message):
        rewrite(conv, **options)


def test_only_inputs_of_the_graph_have_shapes_to_change(conv):
    inner = conv.graph[0].outputs[0].id
    with pytest.raises(og.InvalidArgumentsError, match=f"shapes: tensor {inner} is made by an op"):
        rewrite(conv, shapes={inner: (1, 1, 1, 1)})


# -- batch


def test_mb_changes_the_batch_of_the_inputs_that_have_one(conv):
    (x, w), _ = by_name(conv)
    made = rewrite(conv, mb=7)
    assert made.tensors()[x].shape == (7, 8, 10, 10)
    assert made.tensors()[w].shape == (16, 8, 3, 3)
    assert made.graph[1].outputs[0].shape == (7, 16, 10, 10)


def test_mb_reaches_both_sides_of_a_sum_but_no_mask():
    def build(b):
        q, k, v = (b.input((2, 3, 5, 4), name=n) for n in "qkv")
        mask = b.input((1, 1, 5, 5), name="mask")
        left = b.input((2, 3, 5, 4), name="left")
        scores = (q + left).matmul(k, transpose_b=True) + mask
        b.output(scores.softmax(axis=-1) @ v)

    doc = document(build)
    q, k, v, mask, left = doc.inputs()
    made = shapes_of(rewrite(doc, mb=6, shapes={k: (6, 3, 5, 4), v: (6, 3, 5, 4)}))
    assert made[q] == made[left] == (6, 3, 5, 4)
    assert made[mask] == (1, 1, 5, 5)
    assert made[doc.outputs()[0]] == (6, 3, 5, 4)


def test_a_reshape_that_begins_with_the_batch_follows_it():
    def build(b):
        x = b.input((2, 3, 4), name="x")
        b.output(x.static_reshape(shape=(2, 12), special_zero=False).relu())

    made = rewrite(document(build), mb=5)
    assert made.graph[0].values["shape"] == (5, 12)
    assert made.graph[1].outputs[0].shape == (5, 12)


def test_mb_needs_a_batch():
    def build(b):
        x = b.input((1, 4, 6, 6), name="x")
        y = b.input((1, 8, 6, 6), name="y")
        b.output(
            x.convolution_backward_weights(
                y,
                strides=(1, 1),
                pads_begin=(0, 0),
                pads_end=(0, 0),
                dilations=(1, 1),
                data_format="NCX",
                weights_format="OIX",
                weights_shape=(8, 4, 1, 1),
            )
        )

    with pytest.raises(og.InvalidArgumentsError, match="no input of the graph has a batch"):
        rewrite(document(build), mb=2)


# -- layouts


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


def test_an_input_in_another_layout_lays_out_what_follows(conv):
    (x, w), _ = by_name(conv)
    made = rewrite(conv, strides={x: "acdb", w: (72, 1, 24, 8)})
    assert made.tensors()[x].stride == (800, 1, 80, 8)
    assert made.tensors()[w].stride == (72, 1, 24, 8)
    assert made.graph[0].outputs[0].stride == (1600, 1, 160, 16)
    assert made.graph[1].outputs[0].stride == (1600, 1, 160, 16)


def test_an_input_keeps_its_layout_when_its_shape_changes(conv):
    (x, _), _ = by_name(conv)
    first = rewrite(conv, strides={x: "acdb"})
    made = rewrite(first, shapes={x: (1, 8, 4, 4)})
    assert made.tensors()[x].stride == (128, 1, 32, 8)
    assert made.graph[1].outputs[0].stride == (256, 1, 64, 16)


def test_another_rank_is_row_major():
    def build(b):
        b.output(b.input((4, 6), name="x").relu())

    doc = document(build)
    (x,) = doc.inputs()
    made = rewrite(doc, shapes={x: (2, 3, 5)})
    assert made.graph[0].outputs[0].stride == (15, 5, 1)
    assert rewrite(doc, shapes={x: ()}).graph[0].outputs[0].shape == ()
    assert rewrite(doc, shapes={x: (0,)}).graph[0].outputs[0].shape == (0,)


def test_gaps_are_closed_when_all_is_inferred():
    def build(b):
        b.output(b.input((4, 6), name="x", strides=(8, 1)).relu())

    doc = document(build)
    assert rewrite(doc).graph[0].inputs[0].stride == (8, 1)
    assert rewrite(doc, infer_all=True).graph[0].inputs[0].stride == (6, 1)


# -- data types


def test_one_data_type_for_all_leaves_statistics_alone():
    def build(b):
        x = b.input((4, 6), name="x")
        gamma, beta = (b.input((6,), name=n) for n in ("gamma", "beta"))
        b.output(x.layer_norm(gamma, beta, keep_stats=False).relu())

    doc = document(build)
    made = rewrite(doc, dtypes="bf16").tensors()
    x, gamma, beta = doc.inputs()
    assert [made[i].dtype for i in (x, gamma, beta)] == ["bf16", "f32", "f32"]
    assert made[doc.outputs()[0]].dtype == "bf16"


def test_a_graph_that_converts_has_no_single_data_type():
    def build(b):
        b.output(b.input((4,), name="x").type_cast(dtype="bf16"))

    with pytest.raises(og.InvalidGraphOpError, match=r"graph\[0\]: TypeCast converts data types"):
        rewrite(document(build), dtypes="bf16")


def test_data_types_by_tensor():
    def build(b):
        x = b.input((2, 4), "u8", name="x")
        b.output(x.dequantize(scales=[0.5], zps=[0], qtype="per_tensor"))

    doc = document(build)
    made = rewrite(doc, dtypes={doc.inputs()[0]: "s8"})
    assert made.graph[0].inputs[0].dtype == "s8"
    assert made.graph[0].outputs[0].dtype == "f32"


def test_scales_follow_the_number_of_channels():
    def build(b):
        x = b.input((2, 3), "s8", name="x")
        b.output(x.dequantize(scales=[0.5, 1.0, 2.0], zps=[1, 0, 2], qtype="per_channel", axis=-1))

    doc = document(build)
    made = rewrite(doc, shapes={doc.inputs()[0]: (2, 5)})
    assert made.graph[0].values["scales"] == (0.5, 1.0, 2.0, 0.5, 1.0)
    assert made.graph[0].values["zps"] == (1, 0, 2, 0, 0)
    assert rewrite(doc, shapes={doc.inputs()[0]: (2, 2)}).graph[0].values["scales"] == (0.5, 1.0)


# -- kinds


def test_a_kind_changes_to_one_with_the_same_ports(conv):
    _, (_, op) = by_name(conv)
    made = rewrite(conv, kinds={op: "GELU"})
    assert made.graph[1].kind == "GELU"
    elu = rewrite(conv, kinds={op: "Elu"}, attrs={op: {"alpha": 0.5}})
    assert elu.graph[1].attrs["alpha"].type == "f32"
    with pytest.raises(og.InvalidGraphOpError, match=r"graph\[1\]: .*alpha"):
        rewrite(conv, kinds={op: "Elu"})


def test_kinds_with_as_many_ports_take_each_others_place():
    b = og.GraphBuilder()
    b.output(b.input((2, 3)).relu() + b.input((1, 3)))
    document = serialization.from_builder(b)
    (add,) = (op.id for op in document.graph if op.kind == "Add")
    for kind in ("Divide", "Maximum", "Minimum", "Multiply", "Subtract"):
        (option,) = parse_rewritings([f"--op-kind={add}:{kind}"])
        made = serialization.to_builder(option.apply(document)).compile()
        x, y = np.float32([[1, -2, 3], [4, 5, -6]]), np.float32([[2, 3, 5]])
        np.testing.assert_allclose(
            made(x, y), getattr(np, kind.lower())(np.maximum(x, 0), y), rtol=1e-6
        )


def test_an_op_of_kind_undef_is_removed():
    b = og.GraphBuilder()
    x, y = b.input((2, 3)), b.input((1, 3))
    b.output((x.relu() + y).sigmoid())
    document = serialization.from_builder(b)
    at = {op.kind: op.id for op in document.graph}
    x, y = np.float32([[1, -2, 3], [4, 5, -6]]), np.float32([[2, 3, 5]])
    for removed, arrays, wanted in (
        ("ReLU", (x, y), 1 / (1 + np.exp(-(x + y)))),
        ("Add", (x,), 1 / (1 + np.exp(-np.maximum(x, 0)))),
        ("Sigmoid", (x, y), np.maximum(x, 0) + y),
    ):
        (option,) = parse_rewritings([f"--op-kind={at[removed]}:undef"])
        made = option.apply(document)
        assert len(made.graph) == 2
        np.testing.assert_allclose(
            serialization.to_builder(made).compile()(*arrays), wanted, rtol=1e-5
        )
    with pytest.raises(og.InvalidArgumentsError, match="Add can be removed only if one"):
        rewrite(rewrite(document, kinds={at["ReLU"]: "undef"}), kinds={at["Add"]: "undef"})


# -- benchdnn's options


def test_strides_are_numbers_or_an_order_of_dims_with_a_shape_or_without():
    b = og.GraphBuilder()
    b.output(b.input((2, 3)).relu())
    document = serialization.from_builder(b)
    (id,) = document.inputs()
    for text, shape, strides in (
        ("*ba", (2, 3), (1, 2)),
        ("*4x1", (2, 3), (4, 1)),
        ("5x7*ba", (5, 7), (1, 5)),
        ("5x7*9x1", (5, 7), (9, 1)),
        ("5x7", (5, 7), (7, 1)),
        ("ba", (2, 3), (1, 2)),
    ):
        (option,) = parse_rewritings([f"--in-shapes={id}:{text}"])
        made = option.apply(document).tensors()[id]
        assert (made.dims, made.strides) == (shape, strides), text


def test_options_say_what_benchdnn_reads():
    (made,) = parse_rewritings(
        [
            "--in-shapes=0:2x3*ba+1:-+2:acdb+7:0",
            "--op-attrs=0:strides:2x2*auto_pad:VALID+4:alpha:0.5",
            "--dt=0:u8+2:s8",
            "--op-kind=4:Elu",
            "--mb=4",
            "--attr-fpmath=bf16:true",
            "--expected-n-partitions=2",
            "--tensor-property=1:constant",
        ]
    )
    assert made.shapes == {0: (2, 3), 1: (), 7: (0,)}
    assert made.tags == {0: "ba", 2: "acdb"}
    assert made.attrs == {0: {"strides": "2x2", "auto_pad": "VALID"}, 4: {"alpha": "0.5"}}
    assert made.dtypes == {0: "u8", 2: "s8"}
    assert made.kinds == {4: "Elu"}
    assert (made.mb, made.fpmath_mode, made.apply_to_int) == (4, "bf16", True)
    assert made.expected_partitions == 2
    assert made.properties == {1: "constant"}


def test_lists_of_values_are_combined():
    made = parse_rewritings(["--dt=f32,bf16", "--in-shapes=,0:2x2", "--mb=0"])
    assert [(r.dtypes, dict(r.shapes), r.mb) for r in made] == [
        ("f32", {}, None),
        ("bf16", {}, None),
        ("f32", {0: (2, 2)}, None),
        ("bf16", {0: (2, 2)}, None),
    ]
    assert [str(r) for r in parse_rewritings(["--dt=f32,bf16"])] == ["--dt=f32", "--dt=bf16"]
    assert parse_rewritings([]) == [Rewriting()]


def test_text_becomes_what_the_attribute_is(conv):
    _, (op, relu) = by_name(conv)
    (made,) = parse_rewritings(
        [f"--op-attrs={op}:strides:2x2*auto_pad:VALID+{relu}:alpha:0.5", f"--op-kind={relu}:Elu"]
    )
    rewritten = made.apply(conv)
    assert rewritten.graph[0].values["strides"] == (2, 2)
    assert rewritten.graph[1].values["alpha"] == 0.5
    (wrong,) = parse_rewritings([f"--op-attrs={op}:strides:2.5"])
    with pytest.raises(og.InvalidArgumentsError, match=r"attribute strides: expected integers"):
        wrong.apply(conv)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--in-shape=0:1", "there is no option '--in-shape', did you mean --in-shapes"),
        ("in-shapes=0:1", "there is no option"),
        ("--mb", "expected --mb=VALUE"),
        ("--mb=x", "--mb: expected an integer from 0 on, got 'x'"),
        ("--in-shapes=0", "--in-shapes: expected ID:VALUE, got '0'"),
        ("--in-shapes=0:2*", "expected SHAPE, *STRIDES or SHAPE*STRIDES"),
        ("--in-shapes=0:*2x", "tensor 0: expected an integer from 0 on, got ''"),
        ("--in-shapes=0:2xx3", "tensor 0: expected an integer from 0 on, got ''"),
        ("--in-shapes=0:2+0:3", "0 appears twice"),
        ("--op-attrs=0:alpha", "op 0: expected NAME:VALUE"),
        ("--attr-fpmath=bf16:yes", "expected MODE"),
        ("--engine=tpu", "expected cpu or gpu"),
    ],
)
def test_wrong_options_are_named(option, message):
    with pytest.raises(og.InvalidArgumentsError, match=re.escape(message)):
        parse_rewritings([option])


def test_the_engine_is_the_options_and_not_the_files(conv):
    assert rewrite(conv, engine_kind="gpu").engine_kind == "gpu"
    assert Rewriting().apply(rewrite(conv, engine_kind="gpu")).engine_kind == "cpu"

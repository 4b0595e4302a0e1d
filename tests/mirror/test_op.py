"""Ops and their attributes."""

import numpy as np
import pytest
from graphs import LINKED, graph_of, relu_op

import onednn_graph_py as og

LT = og.logical_tensor

# oneDNN numbers attributes by type (dnnl_graph_types.h).
RANGES = {
    "float": (0x01, 0x1F),
    "floats": (0x20, 0x2F),
    "int": (0x30, 0x3F),
    "ints": (0x40, 0x5F),
    "bool": (0x60, 0x7F),
    "str": (0x80, 0xFE),
}
ATTRIBUTES = {
    kind: [a for a in og.op.attr if low <= a.value <= high and a.name != "end"]
    for kind, (low, high) in RANGES.items()
}
ACCEPTED = {
    "float": [
        1,
        1.5,
        -2,
        0,
        np.float32(1.5),
        np.float64(1.5),
        np.int8(3),
        np.array(1.5),
        float("inf"),
    ],
    "floats": [
        [1],
        [1.5, 2],
        (1.5,),
        np.array([1.5, 2], np.float32),
        np.arange(3),
        range(2),
        [np.float16(1.5), 2],
    ],
    "int": [1, -1, 2**63 - 1, -(2**63), np.int8(3), np.uint64(5), np.array(4)],
    "ints": [
        [1],
        [1, -2],
        (3,),
        np.arange(3),
        np.array([1, 2], np.int32),
        range(2),
        [np.int64(1), 2],
    ],
    "bool": [True, False, np.True_, np.False_, np.array(True)],
    "str": ["NXC", "x", np.str_("NCX")],
}
REFUSED = {
    "float": ["1.5", None, True, np.True_, [1.5], (1.5,), 1j, np.array([1.5]), {}, b"1"],
    "floats": [1.5, "1.5", None, [True], ["1"], [[1.5]], {1.5}, b"12", np.ones((2, 2)), [None]],
    "int": [1.5, 1.0, "1", None, True, np.True_, [1], np.array([1]), np.float32(1), np.array(1.0)],
    "ints": [
        1,
        1.0,
        "12",
        None,
        [True],
        [1.0],
        [[1]],
        {1},
        b"12",
        np.ones((2, 2), int),
        [None],
        np.ones(2),
        bytearray(2),
    ],
    "bool": [0, 1, 1.0, "True", None, [True], np.int64(1), np.array([True])],
    "str": [1, None, True, b"NXC", ["NXC"], 1.5],
}


def rows(cases):
    return [
        pytest.param(attribute, value, id=f"{attribute}-{value!r}")
        for kind, values in cases.items()
        for attribute in ATTRIBUTES[kind]
        for value in values
    ]


def plain(value):
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return list(value) if isinstance(value, tuple | range) else value


def test_every_attribute_has_a_type():
    named = {a for attributes in ATTRIBUTES.values() for a in attributes}
    assert set(og.op.attr) - named == {og.op.attr.undef, og.op.attr.end}
    assert len(named) == (43 if LINKED >= (3, 10) else 42)


@pytest.mark.parametrize(("attribute", "value"), rows(ACCEPTED))
def test_an_attribute_takes_every_form_of_its_type(attribute, value):
    o = og.op(0, "Wildcard")
    assert o.set_attr(attribute, value) is o
    assert o.set_attr(attribute.name, value).get_attrs() == {attribute.name: plain(value)}


@pytest.mark.parametrize(("attribute", "value"), rows(REFUSED))
def test_another_type_is_a_type_error_that_names_op_and_attribute(attribute, value):
    o = og.op(7, "Wildcard", "name of mine")
    with pytest.raises(TypeError, match=rf"op 7 'name of mine' \(Wildcard\).*{attribute}"):
        o.set_attr(attribute, value)
    assert o.get_attrs() == {}


@pytest.mark.parametrize("kind", ["floats", "ints"])
@pytest.mark.parametrize("empty", [[], (), np.array([], int), range(0)])
def test_an_empty_list_is_refused_in_plain_words(kind, empty):
    for attribute in ATTRIBUTES[kind]:
        with pytest.raises(og.InvalidArgumentsError, match=f"{attribute} must have at least one"):
            og.op(0, "Wildcard").set_attr(attribute, empty)


def test_nan_is_a_float():
    assert np.isnan(og.op(0, "Wildcard").set_attr("alpha", float("nan")).get_attrs()["alpha"])


def test_a_failing_iterator_passes_its_own_error_on():
    class Broken:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            raise ZeroDivisionError("mine")

    for attribute in ("strides", "scales"):
        with pytest.raises(ZeroDivisionError, match="mine"):
            og.op(0, "Convolution").set_attr(attribute, Broken())


def test_setting_an_attribute_again_replaces_it():
    o = og.op(0, "MatMul").set_attr("transpose_b", True).set_attr("transpose_b", False)
    assert o.get_attrs() == {"transpose_b": False}


def test_a_float_attribute_given_an_int_works_in_a_graph():
    src, dst = (LT(i, "f32", [4], "strided") for i in range(2))
    clamp = og.op(0, "Clamp", [src], [dst]).set_attr("min", 0).set_attr("max", 6)
    (part,) = graph_of(clamp).get_partitions()
    engine = og.engine("cpu", 0)
    x, y = np.array([-1, 3, 6, 9], np.float32), np.empty(4, np.float32)
    stream = og.stream(engine)
    part.compile([src], [dst], engine).execute(
        stream, [og.tensor(src, engine, x)], [og.tensor(dst, engine, y)]
    )
    stream.wait()
    assert y.tolist() == [0, 3, 6, 6]


def test_ports_are_kept_in_order_and_come_back_as_tuples():
    lts = [LT(i, "f32", [2], "strided") for i in range(6)]
    o = og.op(0, "Concat", [lts[0]], [lts[1]], "cat")
    o.add_input(lts[2])
    o.add_inputs([lts[3], lts[4]])
    o.add_output(lts[5])
    o.add_outputs([])
    assert o.get_inputs() == (lts[0], lts[2], lts[3], lts[4])
    assert o.get_outputs() == (lts[1], lts[5])


def test_the_getters_tell_what_was_given():
    o = og.op(np.int64(9), op_kind := og.op.MatMul, "fc")
    assert (o.get_id(), o.get_kind(), o.get_name()) == (9, op_kind, "fc")
    assert og.op(9, "MatMul").get_name() == ""


def test_the_repr_tells_everything():
    a, b = LT(4, "f32", [2], "strided"), LT(5, "f32", [2], "strided")
    o = og.op(3, "Clamp", [a], [b], "six").set_attr("min", 0).set_attr("max", 6)
    assert repr(o) == "op(3, Clamp, 'six', inputs=[4], outputs=[5], max=6.0, min=0.0)"
    assert repr(og.op(0, "MatMul")) == "op(0, MatMul, inputs=[], outputs=[])"


@pytest.mark.parametrize("kind", [k for k in og.op.kind if k.name != "LastSymbol"])
def test_every_kind_makes_an_op_by_enumerator_and_name(kind):
    assert og.op(0, kind).get_kind() is og.op(0, kind.name).get_kind() is kind


@pytest.mark.parametrize("wrong", [None, 1, "f32", [1]])
def test_ports_of_another_type_are_a_type_error(wrong):
    o = og.op(0, "ReLU")
    for add in (o.add_input, o.add_output, o.add_inputs, o.add_outputs):
        with pytest.raises(TypeError):
            add(wrong)
    assert o.get_inputs() == o.get_outputs() == ()


CHANGES = {
    "set_attr": lambda o: o.set_attr("alpha", 1),
    "add_input": lambda o: o.add_input(LT(9, "f32")),
    "add_inputs": lambda o: o.add_inputs([LT(9, "f32")]),
    "add_output": lambda o: o.add_output(LT(9, "f32")),
    "add_outputs": lambda o: o.add_outputs([LT(9, "f32")]),
}
TAKERS = {
    "graph": lambda o: og.graph("cpu").add_op(o),
    "partition": lambda o: og.partition(o, "cpu"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("taker", TAKERS)
def test_an_op_is_frozen_once_something_took_a_copy(change, taker):
    o = relu_op()
    TAKERS[taker](o)
    before = repr(o)
    with pytest.raises(og.InvalidGraphOpError, match=r"op 0 'relu0' \(ReLU\).*copy of this op"):
        CHANGES[change](o)
    assert repr(o) == before


def test_an_op_that_a_graph_refused_can_still_be_mended():
    src, dst = (LT(i, "f32", [4], "strided") for i in range(2))
    clamp = og.op(0, "Clamp", [src], [dst]).set_attr("min", 0)
    g = og.graph("cpu")
    with pytest.raises(og.InvalidGraphOpError):
        g.add_op(clamp)
    clamp.set_attr("max", 6)
    assert g.add_op(clamp) is og.status.success


def test_one_op_in_several_graphs_and_a_partition_works():
    o = relu_op()
    graphs = [graph_of(o) for _ in range(3)]
    alone = og.partition(o, "cpu")
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    (src,), (dst,) = o.get_inputs(), o.get_outputs()
    for part in [p for g in graphs for p in g.get_partitions()] + [alone]:
        y = np.empty_like(x)
        compiled = part.compile([src], [dst], engine)
        compiled.execute(stream, [og.tensor(src, engine, x)], [og.tensor(dst, engine, y)])
        stream.wait()
        assert (y == np.maximum(x, 0)).all()


@pytest.mark.parametrize(
    ("kind", "name", "documented", "taken"),
    [
        ("Convolution", "auto_pad", "same_upper", "SAME_UPPER"),
        ("AvgPool", "auto_pad", "none", "None"),
        ("ConvTranspose", "weights_format", "OIX", "IOX"),
        ("Convolution", "weights_format", "OIX", "OIX"),
        ("Convolution", "auto_pad", "nonsense", "nonsense"),
        ("ReLU", "auto_pad", "same_upper", "same_upper"),
    ],
)
def test_set_attr_takes_the_documents_spelling(kind, name, documented, taken):
    assert og.op(0, kind).set_attr(name, documented).get_attrs() == {name: taken}

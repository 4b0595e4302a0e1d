"""Graphs."""

import pytest
from graphs import graph_of, relu_op

import onednn_graph_py as og

LT = og.logical_tensor


@pytest.fixture
def graph():
    return og.graph("cpu")


def test_a_graph_tells_engine_kind_ops_and_state(graph):
    assert graph
    assert graph.get_engine_kind() is og.engine.cpu
    assert repr(graph) == "graph(cpu, 0 ops)"
    graph.add_op(relu_op())
    assert not graph.is_finalized()
    graph.finalize()
    assert graph.is_finalized()
    assert repr(graph) == "graph(cpu, 1 ops, finalized)"


def test_get_ops_gives_copies_by_id(graph):
    graph.add_op(relu_op(2))
    graph.add_op(relu_op(0))
    first, second = graph.get_ops()
    assert (repr(first), repr(second)) == (repr(relu_op(0)), repr(relu_op(2)))


@pytest.mark.parametrize("mode", ["strict", "bf16", "f16", "tf32", "any", og.fpmath_mode.bf16])
def test_the_math_mode_is_kept(mode):
    expected = og.fpmath_mode[str(mode)]
    assert og.graph("cpu", mode).get_fpmath_mode() == (expected, False)
    graph = og.graph("cpu")
    graph.set_fpmath_mode(mode, True)
    assert graph.get_fpmath_mode() == (expected, True)
    if expected is not og.fpmath_mode.strict:
        assert repr(graph) == f"graph(cpu, 0 ops, fpmath {expected})"


def test_a_new_graph_has_the_default_math_mode():
    before = og.get_default_fpmath_mode()
    try:
        og.set_default_fpmath_mode("bf16")
        assert og.graph("cpu").get_fpmath_mode() == (og.fpmath_mode.bf16, False)
    finally:
        og.set_default_fpmath_mode(before)


def test_the_math_mode_is_fixed_once_the_graph_is_finalized(graph):
    graph.finalize()
    with pytest.raises(og.InvalidGraphError, match="set_fpmath_mode"):
        graph.set_fpmath_mode("bf16")
    assert graph.get_fpmath_mode() == (og.fpmath_mode.strict, False)


def test_add_op_answers_success(graph):
    assert graph.add_op(relu_op()) is og.status.success
    assert graph.add_op(relu_op(1), False) is og.status.success


@pytest.mark.parametrize(("kind", "outputs"), [("Wildcard", 1), ("End", 0), ("ReLU", 1)])
def test_a_placeholder_of_rank_0_is_taken(kind, outputs):
    source, made = (og.logical_tensor(i, "f32", 0, "strided") for i in range(2))
    g = og.graph("cpu")
    assert g.add_op(og.op(0, kind, [source], [made][:outputs])) is og.status.success


def wrong_schema():
    return og.op(5, "ReLU", [LT(0, "f32", [2], "strided")], [], "lonely")


def test_allow_exception_false_returns_the_status(graph):
    assert graph.add_op(wrong_schema(), False) is og.status.invalid_graph_op
    assert graph.add_op(wrong_schema(), allow_exception=False) is og.status.invalid_graph_op
    graph.finalize()
    assert graph.add_op(relu_op(), False) is og.status.invalid_graph


def test_finalizing_twice_changes_nothing():
    graph = graph_of(relu_op())
    graph.finalize()
    assert len(graph.get_partitions()) == 1


def test_an_empty_graph_has_no_partitions():
    assert graph_of().get_partitions() == []


@pytest.mark.parametrize(("policy", "number"), [("fusion", 1), ("debug", 3)])
def test_the_policy_is_taken_as_enumerator_or_name(policy, number):
    ops = [relu_op(0), og.op(1, "Abs", relu_op(1).get_inputs(), relu_op(1).get_outputs())]
    ops.append(og.op(2, "Square", relu_op(2).get_inputs(), relu_op(2).get_outputs()))
    for spelling in (policy, og.partition.policy[policy]):
        parts = graph_of(*ops).get_partitions(spelling)
        assert sorted(i for p in parts for i in p.get_ops()) == [0, 1, 2]
        if policy == "debug":
            assert len(parts) == number


def test_partitions_can_be_asked_for_twice():
    graph = graph_of(relu_op(0), relu_op(5))
    first, second = graph.get_partitions(), graph.get_partitions()
    assert [p.get_ops() for p in first] == [p.get_ops() for p in second]


def test_ops_are_added_in_any_order():
    graph = graph_of(relu_op(1), relu_op(0))
    assert sorted(i for p in graph.get_partitions() for i in p.get_ops()) == [0, 1]


def test_graphs_are_equal_only_to_themselves(graph):
    assert graph == graph
    assert graph != og.graph("cpu")
    assert graph != 1
    assert hash(graph) == hash(graph)
    assert graph.get() > 0


def test_a_long_chain_of_ops_is_taken():
    length = 2000
    graph = graph_of(*(relu_op(i, (2,)) for i in reversed(range(length))))
    assert sum(p.get_ops_num() for p in graph.get_partitions()) == length


def test_add_op_validates_when_asked():
    src = og.logical_tensor(0, "f32", [1, 6, 6, 8], "strided")
    conv = og.op(3, "Convolution", [src], [og.logical_tensor(2, "f32")], "conv0")
    g = og.graph("cpu")
    with pytest.raises(og.InvalidGraphOpError) as told:
        g.add_op(conv, validate=True)
    assert str(told.value) == (
        "op 3 'conv0' (Convolution): needs the attributes strides, pads_begin, pads_end, dilations"
    )
    assert told.value.status == og.status.invalid_graph_op
    assert g.add_op(conv, False, True) == og.status.invalid_graph_op
    for name, value in {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}.items():
        conv.set_attr(name, [value, value])
    with pytest.raises(og.InvalidGraphOpError, match=r"must have 2 or 3 inputs .*, got 1"):
        g.add_op(conv, validate=True)
    conv.add_input(og.logical_tensor(1, "bf16", [3, 3, 8, 16], "strided"))
    with pytest.raises(og.InvalidGraphOpError, match=r"input 1 \(weights\) must be f32 as input 0"):
        g.add_op(conv, validate=True)
    assert g.get_ops() == []


def test_a_valid_op_is_added_when_validated():
    lts = [og.logical_tensor(i, "f32", [4, 8], "strided") for i in range(2)]
    g = og.graph("cpu")
    assert g.add_op(og.op(0, "ReLU", lts[:1], lts[1:]), validate=True) == og.status.success
    assert len(g.get_ops()) == 1

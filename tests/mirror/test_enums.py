"""Enumerations: complete, right, and reachable by name."""

import copy
import enum
import pickle
import re

import pytest
from graphs import LINKED, LT_ENUMS, RUNTIME, relu_op
from inventory import rows

import onednn_graph_py as og
from onednn_graph_py.machine import cpu

# oneDNN's enumeration -> ours.
MIRRORED = {
    "dnnl::graph::status": og.status,
    "dnnl::engine::kind": og.engine.kind,
    "dnnl::stream::flags": og.stream.flags,
    **{f"dnnl::graph::logical_tensor::{e.__name__}": e for e in LT_ENUMS},
    "dnnl::graph::op::kind": og.op.kind,
    "dnnl::graph::op::attr": og.op.attr,
    "dnnl::graph::partition::policy": og.partition.policy,
    "dnnl::fpmath_mode": og.fpmath_mode,
    "dnnl::accumulation_mode": og.accumulation_mode,
    "dnnl::cpu_isa": og.cpu_isa,
    "dnnl::cpu_isa_hints": og.cpu_isa_hints,
}
if LINKED >= (3, 11):
    MIRRORED["dnnl::graph::graph_dump_mode"] = og.graph_dump_mode

# Enumerators that only other builds of oneDNN have.
OTHER_BUILDS = {("dnnl::stream::flags", "profiling")}


def values_of(name):
    """Return what the inventory says of an enumeration in the linked version."""
    found = {}
    for row in rows():
        if row.owner == name and row.kind == "enum value" and row.is_linked:
            if (name, row.member) in OTHER_BUILDS:
                continue
            text = row.signature.split("=")[-1].strip()
            # LastSymbol moves as ops are added: the last row that applies is the one.
            found[row.member] = (int(text, 0) if re.fullmatch(r"-?\w*\d+", text) else text, row)
    return found


def replaced(name, member):
    """Whether a newer version took an enumerator away again."""
    return any(
        row.owner == name and row.member == member and "only in" in row.notes for row in rows()
    )


@pytest.mark.parametrize("name", MIRRORED)
def test_an_enumeration_has_just_the_inventorys_names_and_values(name):
    expected = {
        member: value
        for member, (value, _) in values_of(name).items()
        if not (replaced(name, member) and LINKED > (3, 7))
    }
    found = {m: e.value for m, e in MIRRORED[name].__members__.items()}
    assert found.keys() == expected.keys()
    for member, value in expected.items():
        if isinstance(value, int):
            assert found[member] == value, member


@pytest.mark.parametrize("name", MIRRORED)
def test_enumerators_print_by_name_and_pickle(name):
    enumeration = MIRRORED[name]
    assert issubclass(enumeration, enum.Enum)
    for member, enumerator in enumeration.__members__.items():
        assert pickle.loads(pickle.dumps(enumerator)) is enumerator
        assert copy.deepcopy(enumerator) is enumerator
        if enumerator.name == member:  # not a second name of one value
            assert str(enumerator) == member
            assert repr(enumerator) == f"<{enumeration.__name__}.{member}: {enumerator.value}>"


@pytest.mark.parametrize("name", MIRRORED)
def test_enumerations_have_docstrings(name):
    assert MIRRORED[name].__doc__


ALIASES = [
    (og.engine, og.engine.kind, None),
    (og.stream, og.stream.flags, None),
    (og.op, og.op.kind, None),
    (og.op, og.op.attr, "undef"),
    (og.partition, og.partition.policy, None),
    (og.logical_tensor, og.logical_tensor.data_type, "dt_undef"),
    (og.logical_tensor, og.logical_tensor.layout_type, "lt_undef"),
    (og.logical_tensor, og.logical_tensor.property_type, "pt_undef"),
]


@pytest.mark.parametrize(("owner", "enumeration", "undef"), ALIASES)
def test_enumerators_are_reachable_from_their_class(owner, enumeration, undef):
    for name, enumerator in enumeration.__members__.items():
        assert getattr(owner, undef if name == "undef" else name) is enumerator


LT = og.logical_tensor
# Every argument that takes an enumerator: a call that takes it, and an enumerator.
ARGUMENTS = {
    "engine.kind": (lambda e: og.engine(e, 0), og.engine.cpu),
    "engine.get_count": (og.engine.get_count, og.engine.gpu),
    "stream.flags": (lambda e: og.stream(og.engine("cpu", 0), e), og.stream.in_order),
    "data_type": (lambda e: LT(0, e), LT.bf16),
    "layout_type": (lambda e: LT(0, "f32", [2], e), LT.any),
    "property_type": (lambda e: LT(0, "f32", [2], "any", e), LT.constant),
    "op.kind": (lambda e: og.op(0, e), og.op.MatMul),
    "op.attr": (lambda e: og.op(0, "MatMul").set_attr(e, True), og.op.transpose_b),
    "graph": (og.graph, og.engine.cpu),
    "graph.mode": (lambda e: og.graph("cpu", e), og.fpmath_mode.bf16),
    "set_fpmath_mode": (lambda e: og.graph("cpu").set_fpmath_mode(e), og.fpmath_mode.any),
    "set_default_fpmath_mode": (og.set_default_fpmath_mode, og.fpmath_mode.strict),
    "partition.kind": (lambda e: og.partition(relu_op(), e), og.engine.cpu),
    "get_constant_tensor_cache_capacity": (
        og.get_constant_tensor_cache_capacity,
        og.engine.cpu,
    ),
    "numpy_dtype": (og.dtypes.numpy_dtype, LT.f32),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_enumerators_name_is_taken_wherever_the_enumerator_is(argument):
    call, enumerator = ARGUMENTS[argument]
    assert type(call(enumerator)) is type(call(enumerator.name))


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_unknown_name_is_refused_with_the_nearest(argument):
    call, enumerator = ARGUMENTS[argument]
    wrong = enumerator.name + "x"
    with pytest.raises(og.InvalidArgumentsError, match=f"'{wrong}' is not a.*") as caught:
        call(wrong)
    assert f"did you mean '{enumerator.name}'" in str(caught.value)


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("wrong", [None, 1, 1.5, b"cpu", [], og.status.success])
def test_something_else_than_enumerator_or_name_is_a_type_error(argument, wrong):
    if argument == "layout_type" and wrong in ([], 1):
        wrong = 2.5  # strides or a layout id there: other constructors
    with pytest.raises((TypeError, og.InvalidArgumentsError)):
        ARGUMENTS[argument][0](wrong)


@pytest.mark.parametrize("wrong", ["", "qqqqqqqqqq"])
def test_a_name_that_is_near_to_nothing_is_refused_with_all_names(wrong):
    with pytest.raises(og.InvalidArgumentsError, match="expected one of any, cpu, gpu"):
        og.engine(wrong, 0)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("matmul", "MatMul"), ("RELU", "ReLU"), ("Softmax", "SoftMax"), ("Conv", None)],
)
def test_hints_see_through_case(wrong, right):
    with pytest.raises(og.InvalidArgumentsError) as caught:
        og.op(0, wrong)
    assert right is None or f"did you mean '{right}'" in str(caught.value)


@pytest.mark.parametrize(
    ("enumeration", "name", "version"),
    [
        (og.op.kind, "RMSNorm", (3, 11)),
        (og.op.attr, "accumulation_mode", (3, 10)),
        (LT.property_type, "host_scalar", (3, 9)),
        (LT.data_type, "s64", (3, 12)),
        (og.cpu_isa, "avx10_2", (3, 12)),
    ],
)
def test_a_newer_enumerator_is_there_or_says_which_onednn_it_needs(enumeration, name, version):
    assert hasattr(enumeration, name) == (version <= LINKED)
    if version <= LINKED:
        assert getattr(enumeration, name) is enumeration[name]
        return
    said = rf"'{name}' needs oneDNN >= {version[0]}\.{version[1]}"
    with pytest.raises(og.MissingNameError, match=said) as caught:
        getattr(enumeration, name)
    assert isinstance(caught.value, og.UnimplementedError) and isinstance(
        caught.value, AttributeError
    )


def test_a_name_that_no_version_has_is_a_plain_attribute_error():
    with pytest.raises(AttributeError, match=r"op\.kind has no enumerator 'Rmsnorm'") as caught:
        og.op.kind.Rmsnorm  # noqa: B018
    assert not isinstance(caught.value, og.OneDNNError)


def test_an_instruction_set_of_a_newer_onednn_has_a_number_and_its_features():
    unknown = og.cpu_isa(0xA03FF)
    assert unknown is og.cpu_isa(0xA03FF) and pickle.loads(pickle.dumps(unknown)) is unknown
    assert (str(unknown), unknown.value) == ("unknown(0xa03ff)", 0xA03FF)
    assert cpu.has(unknown.name, "amx") and cpu.has(unknown.name, "avx512")
    assert not cpu.has(og.cpu_isa(0x100003).name, "amx")
    assert unknown not in list(og.cpu_isa)
    with pytest.raises(ValueError, match="not a valid"):
        og.op.kind(12345)


def test_the_isa_setters_take_names():
    for call in (og.set_max_cpu_isa, og.set_cpu_isa_hints):
        with pytest.raises(og.InvalidArgumentsError, match="is not a"):
            call("nothing like it")
    with pytest.raises(og.InvalidArgumentsError, match="did you mean 'avx2'"):
        og.set_max_cpu_isa("avx22")
    assert RUNTIME

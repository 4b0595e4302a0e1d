"""The table as people see it, and that its rows are whole."""

import inspect
import pydoc

import pytest

import onednn_graph_py as og
from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.describe import documentation_link
from onednn_graph_py.ops.lookup import overview
from onednn_graph_py.ops.terms import MAX_NDIMS

DTYPES = {t.name for t in og.logical_tensor.data_type} | {"s64"}


@pytest.mark.parametrize("kind", OPS)
def test_a_row_is_whole(kind):
    schema = OPS[kind]
    for row in (schema, schema.at((99, 0))):
        variables = {p.type for p in (*row.inputs, *row.outputs)} - {"any"}
        assert variables == set(row.types), "each type variable has data types, and the reverse"
        assert all(set(allowed) <= DTYPES for allowed in row.types.values())
    assert schema.summary.endswith(".")
    assert all(a.meaning and not a.meaning.endswith(".") for a in schema.attributes)
    for a in schema.attributes:
        assert not (a.required and a.default is not None), a
        assert a.required == (a.example is not None), "what is required has an example"
        assert a.type == "string" or not a.allowed
    assert [c.since for c in schema.changes] == sorted(c.since for c in schema.changes)


@pytest.mark.parametrize("kind", OPS)
def test_the_sample_of_a_row_is_right(kind):
    schema = OPS[kind]
    shapes, attrs = schema.sample
    made = og.ops.check(kind, [(s, None) for s in shapes], attrs, version=(99, 0))
    for spec in made:
        assert kind == "Wildcard" or (spec.shape is not None and min(spec.shape, default=1) > 0)


@pytest.mark.parametrize("kind", OPS)
def test_help_shows_it(kind):
    schema = getattr(og.ops, kind)
    assert schema is OPS[kind]
    shown = pydoc.plain(pydoc.render_doc(schema))
    assert schema.summary in shown
    assert documentation_link(schema) in shown
    for a in schema.attributes:
        assert a.name in shown
    assert repr(schema).startswith(f"<op {kind}(")


def test_a_signature_has_ports_and_attributes():
    signature = inspect.signature(og.ops.Convolution)
    assert list(signature.parameters)[:3] == ["src", "weights", "bias"]
    assert signature.parameters["bias"].default is None
    assert signature.parameters["strides"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["strides"].default is inspect.Parameter.empty
    assert signature.parameters["groups"].default == 1
    assert inspect.signature(og.ops.Concat).parameters["src_i"].kind is (
        inspect.Parameter.VAR_POSITIONAL
    )


def test_the_overview_says_what_a_version_lacks():
    lines = {line.split()[0]: line for line in overview((3, 7)).splitlines()}
    assert set(lines) >= set(OPS)
    assert "needs oneDNN >= 3.11" in lines["RMSNorm"]
    assert "needs" not in lines["ReLU"]
    assert "needs" not in overview((3, 13))


def test_the_table_cannot_be_changed_by_accident():
    with pytest.raises(TypeError):
        OPS["ReLU"] = OPS["Exp"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        OPS["ReLU"].kind = "Exp"  # type: ignore[misc]


def test_a_row_at_a_version_is_made_once():
    add = og.ops.Add
    assert add.at((3, 7)) is add.at((3, 7))
    assert add.at((3, 7)).types != add.at((3, 8)).types
    with pytest.raises(LookupError, match=r"needs oneDNN >= 3\.\d+, this is 3\.6"):
        add.at((3, 6))


def test_a_row_at_a_version_is_called_as_that_version_has_it():
    mixed = ((4, 4), "f32"), ((4, 4), "bf16")
    with pytest.raises(og.InvalidGraphOpError, match="must be f32 as input 0"):
        og.ops.Add.at((3, 7))(*mixed)
    og.ops.check("Add", mixed, version=(3, 8))


def test_an_attribute_that_is_not_set_is_its_default():
    softmax = OPS["SoftMax"]
    assert softmax.value_of("axis", {}) == 1
    assert softmax.value_of("axis", {"axis": -1}) == -1
    assert OPS["Pow"].value_of("beta", {}) is None
    assert softmax.value_of("no_such_attribute", {}) is None


def test_the_most_dims_are_the_librarys():
    assert MAX_NDIMS == og.MAX_NDIMS

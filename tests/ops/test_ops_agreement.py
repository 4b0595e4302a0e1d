"""The table and the library agree on what is an op and what is not."""

import op_probes
import pytest
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.ops import OPS

LINKED_KINDS = [kind for kind, schema in OPS.items() if schema.since <= LINKED]

_DENIED = "a port that the attribute denies; oneDNN's kernels number the others by the attribute"

# Where the table and the library differ, and why it stays so: the table refuses, the library takes.
DISAGREEMENTS = {
    ("LayerNorm", "no keep_stats, 3"): _DENIED,
    ("LayerNorm", "no use_affine, 3"): _DENIED,
    ("GroupNorm", "no keep_stats, 3"): _DENIED,
    ("GroupNorm", "no use_affine, 3"): _DENIED,
    ("LayerNormBackward", "no use_affine, 1"): _DENIED,
    ("LayerNormBackward", "no use_affine, 3"): _DENIED,
    ("LayerNormBackward", "4 inputs"): "use_affine promises a gamma that is not there",
    ("DynamicDequantize", "qtype=per_group"): "per_group says nothing without a group_shape",
}


@pytest.mark.parametrize("kind", LINKED_KINDS)
def test_the_table_takes_and_refuses_what_add_op_does(kind):
    wrong = []
    for probe in op_probes.probes(kind):
        if (kind, probe.what) in DISAGREEMENTS:
            continue
        said = op_probes.table_refuses(probe)
        if op_probes.library_takes(probe) == bool(said):
            wrong.append((probe, said or "the table takes it, the library does not"))
    assert not wrong, "\n".join(f"{p}: {said}" for p, said in wrong[:20])


def test_the_probes_are_of_both_kinds():
    taken = refused = 0
    for kind in ("Convolution", "Quantize", "LayerNorm"):
        for probe in op_probes.probes(kind):
            if op_probes.library_takes(probe):
                taken += 1
            else:
                refused += 1
    assert min(taken, refused) > 50


@pytest.mark.parametrize(("kind", "what"), DISAGREEMENTS)
def test_each_listed_disagreement_is_one(kind, what):
    (probe,) = (p for p in op_probes.probes(kind) if p.what == what)
    assert op_probes.library_takes(probe)
    assert op_probes.table_refuses(probe)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, a.name) for kind in LINKED_KINDS for a in OPS[kind].attributes if a.unchecked],
)
def test_strings_that_the_library_does_not_check_are_checked_here(kind, name):
    """oneDNN takes any string and then falls back, or crashes; the table takes the documented."""
    shapes, attrs = OPS[kind].sample
    with pytest.raises(og.InvalidGraphOpError, match=f"attribute {name} must be "):
        og.ops.check(kind, [(s, None) for s in shapes], {**attrs, name: "nonsense"})


def test_every_kind_of_the_library_has_a_row():
    kinds = {k for k in og.op.kind.__members__ if k != "LastSymbol"}
    assert kinds == set(LINKED_KINDS)


def test_every_attribute_of_the_table_is_one_of_the_library():
    for kind in LINKED_KINDS:
        for a in OPS[kind].at(LINKED).attributes:
            assert a.name in og.op.attr.__members__, (kind, a.name)

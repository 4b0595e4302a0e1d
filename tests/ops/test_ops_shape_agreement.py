"""Inferred shapes are those that oneDNN fills in when it compiles with unknown outputs."""

import pytest
from graphs import LINKED
from one_op import Case, draw

import onednn_graph_py as og
from onednn_graph_py.ops import OPS, TensorSpec, check
from onednn_graph_py.tools.selftest.ops import ROWS

LINKED_KINDS = [kind for kind in ROWS if OPS[kind].since <= LINKED]
# No CPU kernel takes these as a partition of their own.
NEVER_ALONE = {"BiasAddBackward", "Dropout", "Pow", "Reciprocal"}
WANTED = 20
DRAWS = 160


def _all_reduced_are_one(c: Case) -> bool:
    (shape,) = c.shapes
    return all(shape[a] == 1 for a in c.attrs["axes"])


# What oneDNN does not compile, whatever the output is declared as; a newer one may.
REFUSED = {
    "ConvolutionBackwardData": lambda c: c.attrs["groups"] > 1,
    "ConvTranspose": lambda c: "output_padding" in c.attrs,
    "ConvTransposeBackwardData": lambda c: max(c.attrs["dilations"]) > 1,
    "PReLU": lambda c: len(c.shapes[1]) > 1 or c.shapes[1] == (1,),
    "Select": lambda c: len(set(c.shapes)) > 1,
    "BatchNormTrainingBackward": lambda c: len(c.shapes[0]) < 4,
    "AvgPool": lambda c: c.attrs.get("rounding_type") == "ceil",
    "MatMul": lambda c: LINKED >= (3, 13) and 0 in c.shapes[0] and 0 in c.shapes[1],
    **dict.fromkeys((k for k in OPS if k.startswith("Reduce")), _all_reduced_are_one),
}


def typed(c: Case) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The inputs, and the outputs as the table infers them, in the first types that it allows."""
    schema = OPS[c.kind].at(LINKED)
    ports = [schema.port("inputs", i) for i in range(len(c.shapes))]
    dtypes = [schema.types.get(p.type, ("f32",))[0] for p in ports if p]
    inputs = [TensorSpec(s, d) for s, d in zip(c.shapes, dtypes, strict=True)]
    expected = []
    for i in range(c.outputs):
        port = schema.port("outputs", i)
        allowed = schema.types.get(port.type, ("f32",)) if port else ("f32",)
        expected.append((None, allowed[1] if c.kind == "TypeCast" else allowed[0]))
    return inputs, list(check(c.kind, inputs, c.attrs, expected))


def _rank(t: TensorSpec) -> int:
    return -1 if t.shape is None else len(t.shape)


def filled_in(c: Case, inputs: list[TensorSpec], outputs: list[TensorSpec], declared: bool):
    """The outputs' shapes by oneDNN; None where it does not run the op by itself."""
    given = [og.logical_tensor(i, t.dtype, t.shape, "strided") for i, t in enumerate(inputs)]
    asked = [
        og.logical_tensor(100 + i, t.dtype, t.shape if declared else _rank(t), "strided")
        for i, t in enumerate(outputs)
    ]
    o = og.op(0, c.kind, given, asked)
    for name, value in c.attrs.items():
        o.set_attr(name, value)
    g = og.graph("cpu")
    g.add_op(o)
    g.finalize()
    (partition,) = g.get_partitions()
    if not partition.is_supported():
        return None
    try:
        compiled = partition.compile(given, asked, og.engine("cpu", 0))
    except og.UnimplementedError:
        return None
    return [tuple(compiled.query_logical_tensor(lt.get_id()).get_dims()) for lt in asked]


@pytest.mark.parametrize("kind", LINKED_KINDS)
def test_inferred_shapes_are_what_onednn_fills_in(kind):
    compared = 0
    for seed in range(DRAWS):
        c = draw(kind, seed)
        inputs, outputs = typed(c)
        try:
            theirs = filled_in(c, inputs, outputs, declared=False)
        except (og.InvalidArgumentsError, og.InvalidGraphOpError) as e:
            if kind in REFUSED and REFUSED[kind](c):
                continue
            # oneDNN may fill in too little; with our shapes it must then compile.
            theirs = filled_in(c, inputs, outputs, declared=True)
            assert theirs is not None, (c, str(e))
        if theirs is None:
            continue
        assert [t.shape for t in outputs] == theirs, c
        compared += 1
        if compared == WANTED:
            break
    assert compared == (0 if kind in NEVER_ALONE else WANTED)

"""What the table of ops refuses raises the same error in the builder, the mirror and graph JSON.

Each use is one of the selftest's draws of an op, broken in one way.
"""

import copy
import dataclasses
import functools
import json
import random
import re
from typing import Any

import json_mutations
import op_probes
import pytest

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.ops import OPS
from onednn_graph_py.tools.selftest import FAMILIES

DRAWS, REFUSED = 150, 30  # of each way, and how many are refused at least
TYPES = ("f32", "bf16", "f16", "s8", "u8", "s32", "boolean")
OTHERS: dict[str, tuple[Any, ...]] = {
    "s64": (1.5, "x", -99),
    "f32": ("x", True, [1.0]),
    "bool": ("x", None, [True]),
    "string": ("nonsense", "", 3),
    "s64[]": (3, "x", [1.5], [True]),
    "f32[]": (2.0, "x", ["x"]),
}


@dataclasses.dataclass
class Use:
    """One op; inputs and outputs are (shape, dtype)."""

    kind: str
    inputs: list[tuple[tuple[int, ...], str]]
    outputs: list[tuple[tuple[int, ...], str]]
    attrs: dict[str, Any]


@functools.cache
def drawn() -> list[Use]:
    nodes = [FAMILIES["ops"](seed).builder.nodes[-1] for seed in range(DRAWS)]
    sides = [
        [[(tuple(map(int, v.shape or ())), v.dtype) for v in s] for s in (n.inputs, n.outputs)]
        for n in nodes
    ]
    return [Use(n.kind, *s, dict(n.attrs)) for n, s in zip(nodes, sides, strict=True)]


# -- ways to break a use


def dim(r: random.Random, use: Use) -> None:
    ports = r.choice((use.inputs, use.outputs))
    i = r.randrange(len(ports))
    shape = [*ports[i][0]] or [1]
    shape[r.randrange(len(shape))] += r.choice((2, 3))
    ports[i] = (tuple(shape), ports[i][1])


def rank(r: random.Random, use: Use) -> None:
    ports = r.choice((use.inputs, use.outputs))
    i = r.randrange(len(ports))
    shape, dtype = ports[i]
    ports[i] = (r.choice((shape[:-1], (*shape, 2))), dtype)


def dtype(r: random.Random, use: Use) -> None:
    ports = r.choice((use.inputs, use.outputs))
    i = r.randrange(len(ports))
    ports[i] = (ports[i][0], r.choice([t for t in TYPES if t != ports[i][1]]))


def missing_tensor(r: random.Random, use: Use) -> None:
    r.choice((use.inputs, use.outputs)).pop()


def another_tensor(r: random.Random, use: Use) -> None:
    ports = r.choice((use.inputs, use.outputs))
    ports.append(ports[-1])


def missing_attribute(r: random.Random, use: Use) -> None:
    if use.attrs:
        del use.attrs[r.choice(sorted(use.attrs))]


def attribute_of_another_op(r: random.Random, use: Use) -> None:
    own = [a.name for a in OPS[use.kind].attributes]
    name = r.choice([n for n in og.op.attr.__members__ if n in op_probes.ATTRIBUTES.keys() - own])
    use.attrs[name] = op_probes.VALUES.get(op_probes.ATTRIBUTES[name].type, "x")


def attribute(r: random.Random, use: Use) -> None:
    if use.attrs:
        name = r.choice(sorted(use.attrs))
        use.attrs[name] = r.choice(OTHERS[op_probes.ATTRIBUTES[name].type])


def entry(r: random.Random, use: Use) -> None:
    lists = [n for n, v in use.attrs.items() if isinstance(v, tuple)]
    if lists:
        name = r.choice(lists)
        value = use.attrs[name]
        use.attrs[name] = r.choice((value[:-1], (*value, value[-1]), (*value[:-1], -7)))


def kind(r: random.Random, use: Use) -> None:
    use.kind = r.choice((use.kind.upper(), use.kind[:-1], f"{use.kind}s"))


WAYS = (dim, rank, dtype, missing_tensor, another_tensor, missing_attribute,
        attribute_of_another_op, attribute, entry, kind)  # fmt: skip


# -- the same use, written in three ways


def in_builder(use: Use) -> None:
    b = og.GraphBuilder()
    inputs = [b.input(shape, dtype) for shape, dtype in use.inputs]
    b.op(use.kind, *inputs, outputs=use.outputs, name=f"{use.kind}_7", **use.attrs)


def in_mirror(use: Use, validate: bool = True) -> None:
    o = og.op(7, use.kind, f"{use.kind}_7")
    for i, (shape, dtype) in enumerate(use.inputs):
        o.add_input(og.logical_tensor(i, dtype, shape, "strided"))
    for i, (shape, dtype) in enumerate(use.outputs):
        o.add_output(og.logical_tensor(100 + i, dtype, shape, "strided"))
    for name, value in use.attrs.items():
        o.set_attr(name, value)
    og.graph("cpu").add_op(o, validate=validate)


def in_json(use: Use) -> None:
    def tensor(id: int, shape: tuple[int, ...], dtype: str) -> Any:
        sizes = [json_mutations.UNKNOWN if d < 0 else d for d in shape]
        more = {"shape": sizes, "stride": [1] * len(sizes), "layout_type": "any"}
        return json_mutations.tensor(id, dtype, **more)

    op = json_mutations.op(
        7,
        use.kind,
        {n: (op_probes.ATTRIBUTES[n].type, v) for n, v in use.attrs.items()},
        [tensor(i, *t) for i, t in enumerate(use.inputs)],
        [tensor(100 + i, *t) for i, t in enumerate(use.outputs)],
    )
    serialization.to_builder(serialization.parse(json.dumps(json_mutations.file(op))))


def error(write: Any, use: Use) -> tuple[type, str]:
    """The error's type, and its text after the op's label; ``(NoneType, "")`` without one."""
    try:
        write(use)
    except (og.OneDNNError, TypeError) as e:
        return type(e), re.sub(r"^(graph\[0\]: )?(op (7 )?'\w+' \(\w+\): )?", "", str(e))
    return type(None), ""


@pytest.mark.parametrize("way", WAYS)
def test_a_broken_draw_raises_the_same_everywhere(way):
    refused = 0
    for seed, right in enumerate(drawn()):
        use = copy.deepcopy(right)
        way(random.Random(seed), use)
        said = error(in_builder, use)
        refused += said[0] is not type(None)
        assert error(in_mirror, use) == said, use
        unasked = error(lambda use: in_mirror(use, validate=False), use)
        if unasked[0] is not type(None):  # oneDNN does not look at all that the table does
            assert unasked[0] is said[0] and said[1] in unasked[1], use
        found = error(in_json, use)
        if said[0] is TypeError:  # a file's values have types of their own
            assert found[0] is og.GraphFormatError, use
            assert f"attrs.{said[1].split()[1]}.value" in found[1]
        else:
            assert found == said, use
    assert refused >= REFUSED

"""Good and bad uses of every op, by which the table is held against the library's own schemas.

Shapes are left unknown: oneDNN checks them when it compiles, not when it takes an op.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.check import check
from onednn_graph_py.ops.lookup import row
from onednn_graph_py.ops.terms import Version

Which = Literal["inputs", "outputs"]

_LIKELY = ("f32", "bf16", "f16", "s8", "u8", "s32")
DTYPES = [t.name for t in og.logical_tensor.data_type]
ATTRIBUTES = {a.name: a for schema in OPS.values() for a in schema.attributes}

# One value for each attribute, where a row has no better.
VALUES: dict[str, Any] = {"s64": 1, "f32": 1.0, "bool": True, "s64[]": (1, 1), "f32[]": (1.0,)}


class Probe(NamedTuple):
    """One use of an op; shapes are unknown."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    what: str


def type_combinations(
    kind: str, version: Version | None = None
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the data types that an op's schema allows for the ports of its sample.

    These are the types of the inputs and of the outputs, port by port; of the linked oneDNN by
    default.
    """
    schema = row(kind).at(version or LINKED)
    shapes, attrs = schema.sample
    unsaid = [(shape, None) for shape in shapes]
    outputs = len(check(kind, unsaid, attrs, version=version))
    ports = [schema.port("inputs", i) for i in range(len(shapes))]
    ports += [schema.port("outputs", i) for i in range(outputs)]
    variables = [p.type for p in ports if p is not None]
    names = list(dict.fromkeys(variables))
    if not names:  # no port that the op must have, so nothing to choose
        return []
    made = []
    for chosen in itertools.product(*(schema.types[name] for name in names)):
        types = dict(zip(names, chosen, strict=True))
        dtypes = tuple(types[v] for v in variables)
        given, expected = dtypes[: len(shapes)], dtypes[len(shapes) :]
        try:
            check(
                kind,
                list(zip(shapes, given, strict=True)),
                attrs,
                [(None, dtype) for dtype in expected],
                version=version,
            )
        except og.InvalidGraphOpError:
            continue
        made.append((given, expected))
    return made


def library_takes(probe: Probe) -> bool:
    """Whether oneDNN's ``add_op`` does, without any check of the mirror's."""
    o = og.op(0, probe.kind, "probe")
    o.add_inputs([og.logical_tensor(i, d) for i, d in enumerate(probe.inputs)])
    o.add_outputs([og.logical_tensor(100 + i, d) for i, d in enumerate(probe.outputs)])
    for name, value in probe.attrs.items():
        o.set_attr(name, value)
    return og._core._test.library_takes(o)


def table_refuses(probe: Probe) -> str:
    """What ``ops.check`` says against it; empty if nothing."""
    unknown = [[(None, d) for d in dtypes] for dtypes in (probe.inputs, probe.outputs)]
    try:
        og.ops.check(probe.kind, unknown[0], probe.attrs, unknown[1])
    except og.OneDNNError as e:
        return str(e)
    return ""


def _allowed(schema: og.ops.OpSchema, which: Which, i: int) -> tuple[str, ...]:
    """The data types that one port takes; f32 where there is none."""
    port = schema.port(which, i)
    return schema.types.get(port.type, ("f32",)) if port else ("f32",)


def probes(kind: str) -> Iterator[Probe]:
    """All uses of one op that are tried."""
    schema = OPS[kind].at(LINKED)
    attrs = schema.sample[1]
    combinations = type_combinations(kind)
    inputs, outputs = combinations[0] if combinations else (("f32",), ("f32",))
    for given, made in combinations:
        yield Probe(kind, given, made, attrs, "a combination of the table")

    # Counts, by repeating or dropping the last port's type.
    def ports(which: Which, n: int, known: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            known[i] if i < len(known) else _allowed(schema, which, i)[0] for i in range(n)
        )

    for n in [*range(len(schema.inputs) + 3), 64, 65]:
        yield Probe(kind, ports("inputs", n, inputs), outputs, attrs, f"{n} inputs")
    for n in range(len(schema.outputs) + 3):
        yield Probe(kind, inputs, ports("outputs", n, outputs), attrs, f"{n} outputs")
        for flag in ("keep_stats", "use_affine"):
            if schema.attribute(flag):
                more = {**attrs, flag: False}
                yield Probe(kind, inputs, ports("outputs", n, outputs), more, f"no {flag}, {n}")

    # Data types: one port at a time, then all at random.
    for i in range(len(inputs)):
        for dtype in DTYPES:
            changed = (*inputs[:i], dtype, *inputs[i + 1 :])
            yield Probe(kind, changed, outputs, attrs, f"input {i} {dtype}")
    for i in range(len(outputs)):
        for dtype in DTYPES:
            changed = (*outputs[:i], dtype, *outputs[i + 1 :])
            yield Probe(kind, inputs, changed, attrs, f"output {i} {dtype}")
    chance = random.Random(kind)
    for i in range(120):
        # Half of them of types that the ports take one by one.
        drawn: dict[Which, tuple[str, ...]] = {}
        for which, known in (("inputs", inputs), ("outputs", outputs)):
            allowed = [_allowed(schema, which, n) if i % 2 else _LIKELY for n in range(len(known))]
            drawn[which] = tuple(chance.choice(one) for one in allowed)
        yield Probe(kind, drawn["inputs"], drawn["outputs"], attrs, "types at random")

    # Attributes: each missing, wrong, of every choice, and those of other ops.
    for name in attrs:
        rest = {k: v for k, v in attrs.items() if k != name}
        yield Probe(kind, inputs, outputs, rest, f"without {name}")
    for attribute in schema.attributes:
        if attribute.type != "string":
            # Of an attribute that the sample has, its own; paddings of 1 would not fit.
            usual = (0, 0) if "padding" in attribute.name else VALUES[attribute.type]
            choices = [attrs.get(attribute.name, usual)]
        elif attribute.unchecked:
            choices = [
                *attribute.allowed
            ]  # other strings are refused by us on purpose, see the test
        else:
            choices = [*attribute.allowed, "nonsense"]
        for value in choices:
            more = {**attrs, attribute.name: value}
            yield Probe(kind, inputs, outputs, more, f"{attribute.name}={value}")
    for name, attribute in ATTRIBUTES.items():
        if schema.attribute(name) is None and name in og.op.attr.__members__:
            value = attribute.allowed[0] if attribute.allowed else VALUES[attribute.type]
            yield Probe(kind, inputs, outputs, {**attrs, name: value}, f"with {name}")

    # What the rules are about.
    for name in ("scales", "zps", "sizes"):
        attribute = schema.attribute(name)
        if attribute is None:
            continue
        for n in (1, 2, 3):
            values = (
                (0,) * n if name == "zps" else (1.0,) * n if "f32" in attribute.type else (4,) * n
            )
            for qtype in ("per_tensor", "per_channel"):
                more = {**attrs, name: values}
                if schema.attribute("qtype"):
                    more["qtype"] = qtype
                yield Probe(kind, inputs, outputs, more, f"{n} {name}, {qtype}")
    if schema.attribute("zps"):
        for given, made in combinations:
            yield Probe(kind, given, made, {**attrs, "zps": (0,)}, f"zps of {given} {made}")

"""Graph JSON files made wrong: seeded mutations of small samples, by structure and by byte.

``mutated(seed)`` makes one. As a program this is the worker of test_json_fuzz.py.
"""

import copy
import functools
import json
import random
from collections.abc import Callable
from typing import Any

from mutation_worker import work
from op_probes import type_combinations

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.base.linked import linked_version

UNKNOWN = -(2**63)

# What stands where something else should.
WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 12, 13, 1.5, -0.0, 1e300, 1e-300, 2**31, 2**32),
    *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**30, 10**400),
    *(float("inf"), float("-inf"), float("nan"), "", "x", "f32", "MatMul", "NaN", "\0", "\ud800"),
    *("é" * 50, "a" * 5000, [], {}, [[]], [0], [-1], [UNKNOWN], [2**62] * 4, [0] * 13, ["1"]),
    *([1] * 2000, {"type": "s64", "value": 1}, {"id": 0}),
)

# Alternatives that the format knows, so that mutants get past the parser.
KNOWN: dict[str, tuple[Any, ...]] = {
    "dtype": ("undef", "f32", "bf16", "f16", "s8", "u8", "s32", "s64", "boolean", "s4", "f8_e5m2"),
    "layout_type": ("undef", "any", "strided", "opaque"),
    "property_type": ("undef", "variable", "constant", "host_scalar"),
    "kind": tuple(og.ops.OPS),
    "type": ("s64", "f32", "bool", "string", "s64[]", "f32[]"),
    "engine_kind": ("any", "cpu", "gpu"),
    "fpmath_mode": ("strict", "bf16", "f16", "tf32", "any"),
    "fpmath_mode_apply_to_int": ("true", "false"),
}

BYTES = b'{}[]",:0123456789-+.eE \\\n\x00\xff\xc3tfn'


def tensor(id: int, dtype: str, *shape: int, property: str = "undef", **fields: Any) -> Any:
    stride = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        stride[i] = stride[i + 1] * shape[i + 1]
    return {
        "id": id,
        "dtype": dtype,
        "shape": list(shape),
        "stride": stride,
        "layout_type": "strided",
        "property_type": property,
        **fields,
    }


def op(id: int, kind: str, attrs: dict[str, Any], inputs: list[Any], outputs: list[Any]) -> Any:
    typed = {n: {"type": type_, "value": value} for n, (type_, value) in attrs.items()}
    return {
        "id": id,
        "name": f"{kind}_{id}",
        "kind": kind,
        "attrs": typed,
        "inputs": inputs,
        "outputs": outputs,
    }


def file(*ops: Any, **fields: Any) -> Any:
    return {"version": "3.7.2", "engine_kind": "cpu", "fpmath_mode": "strict", **fields} | {
        "graph": list(ops)
    }


def _file_of(b: og.GraphBuilder) -> Any:
    """A graph's file with names of ops, without the fields that not all files have."""
    made = json.loads(b.to_json())
    for record in made["graph"]:
        record["name"] = f"{record['kind']}_{record['id']}"
    return file(*made["graph"])


def _groups() -> og.GraphBuilder:
    b = og.GraphBuilder()
    parameters = b.input((2, 16), "f16"), b.input((2, 16), "u4")
    groups = {"qtype": "per_group", "axis": 0, "group_shape": (32, 1)}
    w = b.op("DynamicDequantize", b.input((64, 16), "u4"), *parameters, **groups)
    b.output(b.input((8, 64), "f16") @ w)
    return b


def _windows() -> og.GraphBuilder:
    b = og.GraphBuilder()
    window = {"strides": (2, 2), "pads_begin": (0, 0), "pads_end": (1, 1), "kernel": (2, 3)}
    y = b.input((2, 4, 8, 8)).max_pool(**window, rounding_type="ceil", data_format="NCX")
    statistics = [b.input((4,)) for _ in range(4)]
    y = b.op("BatchNormInference", y, *statistics, epsilon=1e-5, data_format="NCX")
    y = y.interpolate(mode="nearest", sizes=(10, 8), data_format="NCX")
    flags = {"keep_stats": False, "use_affine": False, "data_format": "NCX"}
    b.output(b.op("GroupNorm", y, groups=2, **flags))
    return b


def _movement() -> og.GraphBuilder:
    b = og.GraphBuilder()
    y = b.input((4, 3)).static_reshape(shape=(2, -1), special_zero=True)
    y = y.static_transpose(order=(1, 0))
    b.output(b.concat(y.reduce_sum(axes=[0], keep_dims=True), y, axis=0))
    return b


@functools.cache
def samples() -> dict[str, Any]:
    """Small right files: a chain, int8, a fork with End, unknown shapes, many attributes."""
    unknown = {"shape": [UNKNOWN], "stride": [UNKNOWN], "layout_type": "undef"}
    per_channel = {
        "qtype": ("string", "per_channel"),
        "axis": ("s64", 0),
        "scales": ("f32[]", [0.1, 0.25, 1, 2]),
        "zps": ("s64[]", [0, 0, 0, 0]),
    }
    per_tensor = {"qtype": ("string", "per_tensor"), "scales": ("f32[]", [0.5])}
    convolution = {
        "strides": ("s64[]", [1, 1]),
        "pads_begin": ("s64[]", [0, 0]),
        "pads_end": ("s64[]", [0, 0]),
        "dilations": ("s64[]", [1, 1]),
        "data_format": ("string", "NCX"),
        "weights_format": ("string", "OIX"),
    }
    return {
        "matmul, relu": file(
            op(
                3,
                "MatMul",
                {"transpose_a": ("bool", 0), "transpose_b": ("bool", 1)},
                [tensor(0, "f32", 4, 8), tensor(1, "f32", 6, 8, property="constant")],
                [tensor(2, "f32", 4, 6)],
            ),
            op(4, "ReLU", {}, [tensor(2, "f32", 4, 6)], [tensor(5, "f32", 4, 6)]),
            fpmath_mode_apply_to_int="false",
            input_ports=[0, 1],
            output_ports=[5],
        ),
        "int8": file(
            op(
                0,
                "Dequantize",
                {**per_tensor, "zps": ("s64[]", [3])},
                [tensor(0, "u8", 1, 3, 5, 5)],
                [tensor(1, "f32", 1, 3, 5, 5)],
            ),
            op(
                1,
                "Dequantize",
                per_channel,
                [tensor(2, "s8", 4, 3, 3, 3, property="constant")],
                [tensor(3, "f32", 4, 3, 3, 3)],
            ),
            op(
                2,
                "Convolution",
                convolution,
                [tensor(1, "f32", 1, 3, 5, 5), tensor(3, "f32", 4, 3, 3, 3)],
                [tensor(4, "f32", 1, 4, 3, 3)],
            ),
            op(
                3,
                "Quantize",
                {**per_tensor, "zps": ("s64[]", [0])},
                [tensor(4, "f32", 1, 4, 3, 3)],
                [tensor(5, "s8", 1, 4, 3, 3)],
            ),
        ),
        "fork": file(
            op(
                9,
                "Add",
                {},
                [tensor(2, "f32", 2, 3), tensor(1, "f32", 3)],
                [
                    tensor(4, "f32", 2, 3),
                ],
            ),
            op(7, "Exp", {}, [tensor(0, "f32", 2, 3)], [tensor(2, "f32", 2, 3)]),
            op(8, "End", {}, [tensor(2, "f32", 2, 3)], []),
            op(6, "Wildcard", {}, [tensor(2, "f32", 2, 3)], [tensor(3, "f32", 7)]),
        ),
        "unknown shapes": file(
            op(
                0,
                "Clamp",
                {"min": ("f32", -0.5), "max": ("f32", 1e6)},
                [tensor(0, "bf16", 1, 1) | {"shape": [UNKNOWN, 8], "stride": [8, 1]}],
                [tensor(1, "bf16") | unknown],
            ),
            op(
                1,
                "SoftMax",
                {"axis": ("s64", -1)},
                [tensor(1, "bf16") | unknown],
                [
                    tensor(2, "bf16") | unknown,
                ],
            ),
            fpmath_mode="bf16",
            fpmath_mode_apply_to_int="true",
        ),
        "groups": _file_of(_groups()),
        "windows": _file_of(_windows()),
        "movement": _file_of(_movement()),
    }


@functools.cache
def single_ops() -> dict[str, Any]:
    """A file for each op that the linked oneDNN has: the use of it by which it is probed."""
    made = {}
    for kind, row in og.ops.OPS.items():
        if row.since > linked_version():
            continue
        combinations = type_combinations(kind)
        if not combinations:
            continue
        (shapes, attrs), (taken, given) = row.sample, combinations[0]
        b = og.GraphBuilder()
        inputs = [b.input(s, t) for s, t in zip(shapes, taken, strict=True)]
        b.op(kind, *inputs, outputs=[(None, t) for t in given], **dict[str, Any](attrs))
        made[kind] = json.loads(b.to_json())
    return made


Spot = tuple[Any, Any]
"""A list or dict, and an index or key in it."""


def spots(value: Any) -> list[Spot]:
    """Every place in a file that could hold something else."""
    found: list[Spot] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        found.append((value, key))
        if isinstance(entry, (dict, list)):
            found += spots(entry)
    return found


def _wrong_value(rng: random.Random, root: Any) -> None:
    container, key = rng.choice(spots(root))
    container[key] = copy.deepcopy(rng.choice(WRONG))


def _known_value(rng: random.Random, root: Any) -> None:
    named = [(c, k) for c, k in spots(root) if k in KNOWN and isinstance(c[k], str)]
    if named:
        container, key = rng.choice(named)
        container[key] = rng.choice(KNOWN[key])


def _other_number(rng: random.Random, root: Any) -> None:
    numbers = [(c, k) for c, k in spots(root) if type(c[k]) in (int, float)]
    if numbers:
        container, key = rng.choice(numbers)
        was = container[key]
        near = (was - 1, was + 1, was * 2, -was, 0, rng.randrange(10), rng.choice(WRONG))
        container[key] = rng.choice(near)


def _drop(rng: random.Random, root: Any) -> None:
    container, key = rng.choice(spots(root))
    del container[key]


def _double(rng: random.Random, root: Any) -> None:
    lists = [(c, k) for c, k in spots(root) if isinstance(c, list)]
    if lists:
        container, key = rng.choice(lists)
        container.insert(rng.randrange(len(container) + 1), copy.deepcopy(container[key]))


def _swap(rng: random.Random, root: Any) -> None:
    (c, k), (d, m) = rng.choice(spots(root)), rng.choice(spots(root))
    one, other = copy.deepcopy(c[k]), copy.deepcopy(d[m])
    c[k], d[m] = other, one


def _rename(rng: random.Random, root: Any) -> None:
    objects = [(c, k) for c, k in spots(root) if isinstance(c, dict)]
    container, key = rng.choice(objects)
    name = rng.choice([key + "s", key.upper(), "", "axis", "scales", "id", "\ud800"])
    container[name] = container.pop(key)


def _records(root: Any) -> list[Any]:
    """All descriptions of tensors, as far as they still are what they should be."""
    found = []
    for container, key in spots(root):
        value = container[key]
        if isinstance(value, dict) and isinstance(value.get("id"), int) and "dtype" in value:
            found.append(value)
    return found


def _everywhere(rng: random.Random, root: Any) -> None:
    """Another shape, stride or type for a tensor, in all places that describe it."""
    records = _records(root)
    if not records:
        return
    chosen = rng.choice(records)["id"]
    dims = [rng.choice((0, 1, 2, 3, 4, 6, 8, 2**31, UNKNOWN)) for _ in range(rng.randrange(6))]
    strides = [rng.choice((0, 1, 2, 8, 36, 2**40)) for _ in dims]
    dtype = rng.choice(KNOWN["dtype"])
    what = rng.randrange(3)
    for record in records:
        if record["id"] != chosen:
            continue
        if what == 0:
            record["dtype"] = dtype
        else:
            record["shape"] = list(dims)
            plain = tensor(0, "f32", *(max(d, 1) for d in dims))["stride"]
            record["stride"] = list(plain if what == 1 else strides)


def _rewire(rng: random.Random, root: Any) -> None:
    """One description of a tensor where another was."""
    records = _records(root)
    if records:
        made, target = copy.deepcopy(rng.choice(records)), rng.choice(records)
        target.clear()
        target.update(made)


def _attribute(rng: random.Random, root: Any) -> None:
    """Another attribute, or another value of the type that it has."""
    if not isinstance(root.get("graph"), list):
        return
    ops = [o for o in root["graph"] if isinstance(o, dict) and isinstance(o.get("attrs"), dict)]
    if not ops:
        return
    chosen = rng.choice(ops)
    known = og.ops.OPS.get(str(chosen.get("kind")))
    mine = known.attributes if known is not None and rng.random() < 0.8 else ()
    attribute = rng.choice(mine or rng.choice(ATTRIBUTES))
    number = rng.choice((-3, -1, 0, 1, 2, 3, 4, 2**31, 2**62, -(2**62)))
    real = rng.choice((0, -1.5, 0.1, 1, 3e38, 1e-45, float("inf")))
    values: dict[str, Any] = {
        "s64": number,
        "f32": real,
        "bool": rng.choice((0, 1, True)),
        "string": rng.choice((*(attribute.allowed or ("x",)), "none", "VALID", "SAME_UPPER")),
        "s64[]": [rng.choice((-1, 0, 1, 2, 4, number)) for _ in range(rng.randrange(6))],
        "f32[]": [rng.choice((0.5, real)) for _ in range(rng.randrange(6))],
    }
    chosen["attrs"][attribute.name] = {"type": attribute.type, "value": values[attribute.type]}


ATTRIBUTES = tuple(row.attributes for row in og.ops.OPS.values() if row.attributes)

STRUCTURE: tuple[Callable[[random.Random, Any], None], ...] = (
    *(_wrong_value, _known_value, _known_value, _other_number, _other_number, _other_number),
    *(_drop, _double, _swap, _rename, _everywhere, _everywhere, _everywhere, _everywhere),
    *(_rewire, _rewire, _attribute, _attribute, _attribute, _attribute),
)


def _flipped(rng: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at, what = rng.randrange(len(made)), rng.randrange(5)
        if what == 0:
            made[at] = rng.choice(BYTES)
        elif what == 1:
            made[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            made[at:at] = bytes(rng.choices(BYTES, k=rng.randrange(1, 4)))
        elif what == 3:
            del made[at : at + rng.randrange(1, 9)]
        else:
            start = rng.randrange(len(made))
            made[at:at] = made[start : start + rng.randrange(60)]
        made = made or bytearray(b" ")
    return bytes(made)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _deep(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    opening = rng.choice([b"[", b'{"a":', b'{"graph":['])
    return data[:at] + opening * rng.choice([3, 900, 100_000]) + data[at:]


def _long(rng: random.Random, data: bytes) -> bytes:
    at = rng.choice([i for i, c in enumerate(data) if chr(c).isdigit()] or [0])
    return data[:at] + rng.choice([b"9" * 100_000, b"1e999999", b"inf", b"-nan"]) + data[at + 1 :]


BYTEWISE: tuple[Callable[[random.Random, bytes], bytes], ...] = (_flipped,) * 6 + (
    _cut,
    _deep,
    _long,
)


def mutated(seed: int) -> bytes:
    """One file, wrong in one or several places, or right by accident."""
    rng = random.Random(seed)
    pool = samples() if rng.random() < 0.6 else single_ops()
    root = copy.deepcopy(rng.choice(list(pool.values())))
    bytewise = rng.random() < 0.25
    for _ in range(0 if bytewise else rng.choice((1, 1, 1, 2, 2, 3, 5))):
        if isinstance(root, dict) and root:
            rng.choice(STRUCTURE)(rng, root)
    data = json.dumps(root, indent=rng.choice((None, 2))).encode()
    if bytewise or rng.random() < 0.05:
        data = rng.choice(BYTEWISE)(rng, data)
    return data


def outcome(data: bytes) -> str:
    """How far a file gets: ``parse``, ``builder`` or ``graph`` and the error, or ``all``.

    Raises
    ------
    Exception
        That no caller should meet; or a file that is read does not come back as it was.
    """
    stage = "parse"
    try:
        document = serialization.parse(data)
        if serialization.parse(serialization.to_json(document)) != document:
            raise AssertionError("what is written is not what was read")
        stage = "builder"
        built: og.OneDNNError | None = None
        try:
            builder = serialization.to_builder(document)
        except og.OneDNNError as e:
            built = e
        else:
            if builder.nodes:
                again = serialization.from_builder(builder)
                if serialization.from_builder(serialization.to_builder(again)) != again:
                    raise AssertionError("the builder gives another document")
        stage = "graph"
        serialization.to_graph(document)
        if built is not None:
            stage = "builder"
            raise built
    except og.OneDNNError as e:
        if not str(e).strip() or len(str(e)) > 3000:
            raise AssertionError(f"a message of {len(str(e))} characters") from e
        return f"{stage} {type(e).__name__}: {e}".replace("\n", " ")
    return "all"


if __name__ == "__main__":
    work(mutated, outcome)

"""ONNX files made wrong: seeded mutations of small models, by their messages and by their bytes.

``mutated(seed)`` makes one. As a program this is the worker of test_onnx_untrusted.py.
"""

import functools
import logging
import os
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
from google.protobuf.message import DecodeError, EncodeError
from mutation_worker import work

import onednn_graph_py as og
from onednn_graph_py import onnx as front
from onednn_graph_py.onnx import message_counts

TEXTS = {
    "a perceptron": """g (float[N, 4] x) => (float[N, 4] y, int64[N, 2] i)
        <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
         float[4] b = {1, 2, 3, 4}, int64[1] k = {2}, int64[3] s = {0, 2, 2}, int64[2] f = {0, 4}> {
        a = MatMul(x, w) c = Add(a, b) d = Reshape(c, s) e = Relu(d) y = Reshape(e, f)
        v, i = TopK <axis = -1> (y, k) }""",
    "a convolution": """g (float[N, 2, 5, 5] x) => (float[N, C, H, W] y)
        <float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] s = {1, 2}, float[2] b = {0, 1}> {
        a = Conv <pads = [1, 1, 1, 1], strides = [2, 1]> (x, w, b)
        c = BatchNormalization(a, s, b, b, s)
        d = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (c)
        y = HardSigmoid <alpha = 0.3> (d) }""",
    "branches and loops": """g (float[N, 4] x, bool c) => (float[M, 4] y, float[2, N, 4] z)
        <int64 n = {2}> {
        a = If (c) <then_branch = t () => (float[N, 4] r) { r = Relu(x) },
                    else_branch = e () => (float[N, 4] q) { q = Neg(x) }>
        t = Constant <value = bool {1}> ()
        y, z = Loop (n, t, a) <body = l (int64 i, bool go, float[N, 4] v) =>
            (bool on, float[N, 4] u, float[N, 4] o) {
                on = Identity(go) u = Add(v, v) o = Sqrt(u) }> }""",
    "8 bits": """g (float[N, 4] x) => (float[N, 4] y)
        <float s = {0.1}, uint8 z = {3}, int8 o = {0}, float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
        a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
        q = QuantizeLinear(w, s, o) r = DequantizeLinear(q, s, o)
        m = MatMul(b, r) i = Transpose <perm = [1, 0]> (r) y = MatMul(m, i) }""",
    "sequences": """g (float[N, 4] x) => (float[M, 4] y, int64 n)
        <int64 i = {0}, int64[1] p = {0}, int64[1] q = {1}> {
        a = Relu(x) l = SequenceConstruct(a, x) n = SequenceLength(l)
        b = SequenceAt(l, i) o = Optional(b) c = OptionalGetElement(o)
        d = ConcatFromSequence <axis = 0> (l) e = Slice(d, p, q) y = Add(e, c) }""",
    "dims": """g (float[N, 3] x) => (float[N, K] y, float[A, B] z) <int64[1] m = {-1},
        int64[1] i = {0}, int64[1] j = {1}, int64 a = {0}, int64 b = {4}, int64 d = {1}> {
        s = Shape(x) h = Slice(s, i, j) t = Concat <axis = 0> (h, m) y = Reshape(x, t)
        c = ConstantOfShape <value = float[1] {2}> (s) e = Einsum <equation = "ij,kj->ik"> (c, x)
        u = Range(a, b, d) r = ReduceSum(u) p = Greater(e, e) z = Where(p, e, e) }""",
}


@functools.cache
def samples() -> list[bytes]:
    """Small models that are right: of nodes, subgraphs, sequences, strings, functions and files."""
    made = []
    for text in TEXTS.values():
        model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 19]> {text}')
        made.append(model)
    helper = onnx.helper
    add = [helper.make_node("Add", ["x", "w"], ["y"])]
    made += [_model(add, [_external("w.bin")]), _model(add, [_external("linked.bin", 4)])]
    sparse = _model(add)
    indices = onnx.numpy_helper.from_array(np.array([0, 2]), "i")
    values = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    sparse.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    made.append(sparse)
    texts = [helper.make_tensor(n, onnx.TensorProto.STRING, [4], list("abcd")) for n in "st"]
    strings = [
        helper.make_node("Equal", ["s", "t"], ["e"]),
        helper.make_node("Cast", ["e"], ["w"], to=onnx.TensorProto.FLOAT),
    ]
    made.append(_model(strings + add, texts))
    inner = [helper.make_node("Constant", [], ["w"], value_floats=[1.0, 2.0, 3.0, 4.0]), *add]
    called = _model([helper.make_node("f", ["x"], ["y"], domain="own", scale=2.0)])
    called.opset_import.append(helper.make_opsetid("own", 1))
    opsets = [helper.make_opsetid("", 19)]
    called.functions.append(helper.make_function("own", "f", ["x"], ["y"], inner, opsets))
    return [m.SerializeToString() for m in (*made, called)]


def _model(nodes: list[Any], weights: Any = ()) -> onnx.ModelProto:
    value, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", kind, ["N", 4])], [value("y", kind, None)], list(weights)
    )
    opsets = [onnx.helper.make_opsetid("", 19)]
    return onnx.helper.make_model(graph, ir_version=9, opset_imports=opsets)


def _external(location: str, offset: int = 0) -> onnx.TensorProto:
    made = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=1)
    for key, value in (("location", location), ("offset", offset), ("length", 16)):
        made.external_data.add(key=key, value=str(value))
    return made


NUMBERS = (0, 1, -1, 2, 3, 4, 7, 19, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1)
NAMES = (
    *("", "x", "y", "w", "a", "\x1b]0;evil\x07\u202e", "é" * 9, "a" * 5000, "g", "own", "\0"),
    *(
        "axis",
        "to",
        "value",
        "perm",
        "../w.bin",
        "/dev/zero",
        "pipe",
        "link",
        "none",
        "-1",
        "9" * 30,
    ),
)
OPS = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated})

CRASHING = (b"Einsum", b"Div")
"""What ends a process in onnxruntime: no elements to sum over; the least integer over -1."""


def _messages(message: Any) -> list[Any]:
    """Return a message and all that it has inside."""
    found = [message]
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                found += _messages(inner)
    return found


def _scalar(rng: random.Random, field: Any, old: Any) -> Any:
    if field.enum_type is not None:
        return rng.choice([v.number for v in field.enum_type.values])
    if isinstance(old, str):
        return rng.choice(OPS) if field.name == "op_type" else rng.choice(NAMES)
    if isinstance(old, bytes):
        return rng.choice((b"", old[:-1], old + b"a", bytes(16), b"\xff" * 16))
    if isinstance(old, float):
        return rng.choice((0.0, -1.5, 1e30, float("inf"), float("nan")))
    bits = 31 if field.cpp_type == field.CPPTYPE_INT32 else 63
    return max(-(2**bits), min(rng.choice((*NUMBERS, old + 1, old - 1)), 2**bits - 1))


def _change(rng: random.Random, model: onnx.ModelProto) -> None:
    """Change a field somewhere: another value, one less, one twice, or one from elsewhere."""
    messages = _messages(model)
    message = rng.choice([m for m in messages if m.ListFields()] or [model])
    if rng.random() < 0.1:
        field = rng.choice(list(message.DESCRIPTOR.fields))  # also one that it lacks
    else:
        field = rng.choice([f for f, _ in message.ListFields()] or list(message.DESCRIPTOR.fields))
    value = getattr(message, field.name)
    if field.message_type is not None:
        same = [m for m in messages if m.DESCRIPTOR.full_name == field.message_type.full_name]
        # As bytes: protobuf crashes where a message is copied into itself.
        other = rng.choice(same).SerializeToString() if same else b""
        if field.is_repeated:
            if value and rng.random() < 0.4:
                at = rng.randrange(len(value))
                other = rng.choice((b"", value[at].SerializeToString()))
                del value[at]
            if other:
                value.add().MergeFromString(other)
        else:
            message.ClearField(field.name)
            if rng.random() < 0.7:
                value.MergeFromString(other)
    elif field.is_repeated:
        if value and rng.random() < 0.7:
            at = rng.randrange(len(value))
            value[at] = _scalar(rng, field, value[at])
        elif value and rng.random() < 0.5:
            del value[rng.randrange(len(value)) :]
        else:
            value.extend([value[0] if value else _scalar(rng, field, field.default_value or 0)])
    elif rng.random() < 0.15:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(rng, field, value))


def mutated(seed: int) -> bytes:
    """One file, wrong in one or several places, or right by accident."""
    rng = random.Random(seed)
    data = rng.choice(samples())
    if rng.random() < 0.75:
        model = onnx.ModelProto.FromString(data)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
            try:
                _change(rng, model)
            except (TypeError, ValueError):  # a default of another type
                continue
        data = model.SerializeToString()
    else:
        made = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            at = rng.randrange(len(made))
            if rng.random() < 0.8:
                made[at] = rng.choice((rng.randrange(256), made[at] ^ 1 << rng.randrange(8)))
            else:
                made[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        data = bytes(made)
    return data if rng.random() < 0.97 else data[: rng.randrange(len(data) + 1)]


@functools.cache
def _folder() -> Path:
    """Make a folder with the files that models may name."""
    made = tempfile.TemporaryDirectory(prefix="onnx_mutations")
    folder = Path(made.name)
    _kept.append(made)
    np.arange(8, dtype=np.float32).tofile(folder / "w.bin")
    os.link(folder / "w.bin", folder / "linked.bin")
    os.symlink("/dev/zero", folder / "link")
    os.mkfifo(folder / "pipe")
    return folder


_kept: list[Any] = []


def outcome(data: bytes) -> str:
    """How far a file gets: ``load`` or ``call`` and the error, or ``all``.

    Raises
    ------
    Exception
        That no caller should meet.
    """
    file = _folder() / "m.onnx"
    file.write_bytes(data)
    try:
        onnx.ModelProto.FromString(data)
    except (DecodeError, EncodeError):
        pass
    else:
        message_counts.check_counts(data)  # refuses nothing that protobuf reads
    stage = "load"
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            native = len(data) % 2 and not any(name in data for name in CRASHING)
            model = front.load(file, fallback="auto" if native else "reference")
            stage = "call"
            shapes = [
                [d if isinstance(d, int) else 2 for d in dims or ()]
                for dims in model.input_dims.values()
            ]
            few = sum(int(np.prod(s, dtype=object)) for s in shapes) < 1 << 20
            if few and b"Loop" not in data:  # which runs as often as a file says
                model(model.random_inputs(shapes))
            str(model.report())
        for one in warned:
            require_plain(str(one.message))
    except og.OneDNNError as e:
        require_plain(str(e))
        if not str(e).strip() or len(str(e)) > 20_000:
            raise AssertionError(f"a message of {len(str(e))} characters") from e
        return f"{stage} {type(e).__name__}: {e}".replace("\n", " ")
    return "all"


def require_plain(text: str) -> None:
    """Raise if a terminal would obey a text, or show it in another order."""
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise AssertionError(f"a control character in {text[:200]!r}")


if __name__ == "__main__":
    logging.disable()
    work(mutated, outcome)

"""What is not a graph's JSON raises `GraphFormatError`, which says where and why."""

import copy
import json
import os
import re
import subprocess
import sys

import json_mutations
import pytest
from peaks import peak_within

import onednn_graph_py as og
from onednn_graph_py import GraphFormatError, serialization
from onednn_graph_py.serialization import read

UNKNOWN = og.UNKNOWN_DIM
CHAIN = json_mutations.samples()["matmul, relu"]


def changed(place: str, value):
    """The sample with one place changed, such as ``graph[0].inputs[1].id``."""
    root = copy.deepcopy(CHAIN)
    *way, last = [int(p) if p.isdigit() else p for p in re.findall(r"\w+", place)]
    inner = root
    for step in way:
        inner = inner[step]
    inner[last] = value
    return root


def refused(source) -> str:
    with pytest.raises(GraphFormatError) as e:
        serialization.parse(source)
    assert isinstance(e.value, og.OneDNNError)
    return str(e.value)


INT64 = "expected an integer from -9223372036854775808 to 9223372036854775807"
CYCLE = "ops form a cycle; each reads the next one's result"
WRONG_VALUES = [  # what is said of a place behind its name
    ("graph", 7, "expected a list, got 7"),
    ("graph", [], "expected at least one op, got an empty list"),
    ("graph[1]", None, "expected an object, got null"),
    ("version", 3.7, "expected a string, got 3.7"),
    ("graph[0].id", "x", 'expected an integer, got "x"'),
    ("graph[0].id", True, "expected an integer, got true"),
    ("graph[0].id", 1.0, "expected an integer, got 1.0"),
    ("graph[0].kind", 5, "expected a string, got 5"),
    ("graph[0].kind", "", 'expected an op kind, got ""'),
    ("graph[0].name", {}, "expected a string, got an object"),
    ("graph[0].attrs", [], "expected an object, got a list"),
    ("graph[0].inputs", {}, "expected a list, got an object"),
    ("graph[0].inputs[0]", [], "expected an object, got a list"),
    ("graph[0].inputs[0].shape", 4, "expected a list, got 4"),
    ("graph[0].inputs[0].shape[1]", "x", 'expected an integer, got "x"'),
    (
        "graph[0].inputs[0].dtype",
        "f33",
        "expected one of undef, f16, bf16, f32, s32, s8, u8, boolean, f8_e5m2, f8_e4m3, s4, u4, "
        's64, got "f33"',
    ),
    (
        "graph[1].outputs[0].layout_type",
        "blocked",
        'expected one of undef, any, strided, opaque, got "blocked"',
    ),
    ("graph[1].outputs[0].property_type", 0, "expected a string, got 0"),
    ("engine_kind", "tpu", 'expected one of any, cpu, gpu, got "tpu"'),
    ("fpmath_mode", "f64", 'expected one of strict, bf16, f16, any, tf32, got "f64"'),
    ("fpmath_mode_apply_to_int", "yes", 'expected "true" or "false", got "yes"'),
    ("input_ports", 0, "expected a list, got 0"),
    ("graph[0].attrs.transpose_a", 1, "expected an object, got 1"),
    (
        "graph[0].attrs.transpose_a.type",
        "s32",
        'expected one of s64, f32, bool, string, s64[], f32[], got "s32"',
    ),
    ("graph[0].attrs.transpose_a.value", 2, "expected 0, 1, false or true, got 2"),
    ("graph[0].inputs[0]", {"id": 0}, 'the field "dtype" is missing'),
    ("graph[0].attrs.x", {}, 'the field "type" is missing'),
    (
        "graph[0].id",
        2**64,
        "expected an integer from 0 to 18446744073709551615, got 18446744073709551616",
    ),
    (
        "graph[0].inputs[0].shape[0]",
        2**63,
        f"{INT64}, got 9223372036854775808",
    ),
    (
        "graph[0].inputs[0].shape[0]",
        10**30,
        f"{INT64}, got 1000000000... (31 characters)",
    ),
    (
        "graph[0].inputs[0].shape[0]",
        -2,
        "expected an integer from 0 on, or -9223372036854775808 (unknown), got -2",
    ),
    ("graph[0].inputs[0].shape", [1] * 13, "expected at most 12 dims, got 13"),
    ("graph[0].inputs[0].stride", [1], "expected 2 integers as shape has, got 1"),
    ("graph[0].inputs[0].stride[0]", float("nan"), "expected an integer, got NaN"),
    ("graph[0].name", "\ud800", "half of a surrogate pair in the string"),
    ("graph[1].id", 3, "graph[0] has the id 3 too"),
    ("graph[1].outputs[0].id", 2, "tensor 2 is made by graph[0].outputs[0] already"),
    ("graph[1].inputs[0].dtype", "bf16", "tensor 2 is bf16 here and f32 in graph[0].outputs[0]"),
]
WRONG_ELSEWHERE = [  # the place that is said is another
    (
        "output_ports",
        [-1],
        "output_ports[0]: expected an integer from 0 to 18446744073709551615, got -1",
    ),
    (
        "graph[0].attrs.x",
        {"type": "s64[]", "value": [1, None]},
        "graph[0].attrs.x.value[1]: expected an integer, got null",
    ),
    (
        "graph[0].attrs.x",
        {"type": "f32", "value": "1"},
        'graph[0].attrs.x.value: expected a number, got "1"',
    ),
    ("graph[0].strides", [], 'graph[0]: unknown field "strides"'),
    ("input_port", [], 'graph file: unknown field "input_port", did you mean "input_ports"?'),
    (
        "graph[0].attrs.x",
        {"type": "f32", "value": float("nan")},
        "graph[0].attrs.x.value: expected a number, got NaN",
    ),
    (
        "graph[0].attrs.x",
        {"type": "f32", "value": 1e39},
        "graph[0].attrs.x.value: expected a number that fits into f32, got 1e+39",
    ),
    (
        "graph[0].attrs.x",
        {"type": "s64", "value": float("inf")},
        "graph[0].attrs.x.value: expected an integer, got Infinity",
    ),
    (
        "graph[1].inputs[0].id",
        5,
        f"graph[1]: {CYCLE}: graph[1] -> graph[1]",
    ),
    (
        "graph[0].inputs[0].id",
        5,
        f"graph[0]: {CYCLE}: graph[0] -> graph[1] -> graph[0]",
    ),
]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [*((p, v, f"{p}: {said}") for p, v, said in WRONG_VALUES), *WRONG_ELSEWHERE],
)
def test_a_wrong_value_is_named_with_its_place(place, value, message):
    root = changed(place, value)
    assert refused(json.dumps(root)) == message.replace("1000000000...", "1" + 19 * "0" + "...")
    if "characters" not in message:  # digits are counted in text only
        assert refused(root) == message


def test_numbers_that_no_type_holds():
    text = json.dumps(changed("graph[0].attrs.x", {"type": "f32", "value": "HERE"}))
    at = "graph[0].attrs.x.value: expected a number that fits into f32, got "
    assert refused(text.replace('"HERE"', "1" + "0" * 400)) == (
        at + "1" + "0" * 19 + "... (401 characters)"
    )
    assert refused(text.replace('"HERE"', "-1e400")) == at + "-1e400"
    # Python refuses to convert so many digits, and to print them.
    assert refused(changed("graph[0].id", 10**5000)).endswith("got a long int")
    huge = text.replace('"HERE"', "9" * 1_000_000)
    assert refused(huge) == at + "9" * 20 + "... (1000000 characters)"


def test_a_field_that_is_there_twice():
    text = json.dumps(CHAIN).replace('"kind": "ReLU"', '"kind": "ReLU", "kind": "Abs"')
    assert refused(text) == 'graph[1]: the field "kind" appears twice'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "not JSON: line 1, column 1: expecting value"),
        (b"[]", "graph file: expected an object, got a list"),
        (b"{}", 'graph file: the field "version" is missing'),
        (b"null", "graph file: expected an object, got null"),
        (b'{"version"\n: x}', "not JSON: line 2, column 3: expecting value"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8: byte 0 is 0xff"),
        (b'{"version": "\xc3"}', "not UTF-8: byte 13 is 0xc3"),
        ("[" * 100_000, "nested too deeply for a graph"),
        ('{"graph":' * 100_000, "nested too deeply for a graph"),
        ('{"graph":' + "[" * 100_000, "nested too deeply for a graph"),
        (b'{"version": -inf, "graph": nan', "not JSON: line 1: expecting ',' delimiter"),
    ],
)
def test_what_is_no_json(source, message):
    assert refused(source) == message


def test_every_truncated_file_is_refused():
    whole = serialization.to_json(serialization.parse(CHAIN)).rstrip().encode()
    for end in range(len(whole)):
        assert refused(whole[:end]).startswith("not JSON: line ")


def test_what_is_no_source():
    for source in (None, 7, 1.5, [CHAIN], object()):
        with pytest.raises(TypeError, match=r"from a path, JSON text, bytes or a dict, got "):
            serialization.parse(source)


def test_paths_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path) == f"{tmp_path}: expected a file, got a folder"
    assert refused(tmp_path / "pipe") == f"{tmp_path / 'pipe'}: expected a file, got a pipe"
    assert refused("/dev/zero") == "/dev/zero: expected a file, got a device"
    assert refused("a\0b") == "a\\x00b: 'a\\x00b': a path can't contain NUL"
    with pytest.raises(FileNotFoundError):
        serialization.parse(tmp_path / "absent.json")


def test_errors_of_a_file_begin_with_its_path(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(changed("graph[0].id", "x")))
    assert refused(path) == f'{path}: graph[0].id: expected an integer, got "x"'
    assert refused(str(path)) == refused(path)
    path.write_text(json.dumps(changed("graph[1].kind", "RELU")))
    with pytest.raises(og.InvalidArgumentsError) as e:
        og.load(path)
    assert str(e.value) == f"{path}: graph[1]: 'RELU' is not an op kind; did you mean 'ReLU'?"


def test_files_above_the_limits_are_not_read(tmp_path):
    path = tmp_path / "sparse.json"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert refused(path) == f"{path}: too large: {1 << 40} bytes, at most {read.MAX_BYTES} are read"
    text = b"[" + b"[]," * read.MAX_MARKS
    assert refused(text[: read.MAX_BYTES]).startswith("too large: 8000001 quotes, commas and ")


def test_the_largest_files_take_bounded_memory():
    """Lists are what takes the most memory for its bytes."""
    script = f"""
import resource, onednn_graph_py as og
limit = {2 << 30}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    og.serialization.parse(b'{{"graph":[' + b"[]," * {read.MAX_MARKS // 2 - 4} + b"0]}}")
except og.GraphFormatError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == 'graph file: the field "version" is missing\n', done.stderr


def test_claims_of_size_allocate_nothing():
    root = changed("graph[0].inputs[0].shape", [2**40, 2**40])
    document = serialization.parse(root)
    assert document.graph[0].inputs[0].shape == (2**40, 2**40)
    with peak_within(64 << 20):
        with pytest.raises(og.InvalidShapeError, match="more elements than memory can hold"):
            serialization.to_builder(document)
        with pytest.raises(og.InvalidShapeError, match="more elements than memory can hold"):
            serialization.to_graph(document)


# What parses, and is no graph for all that.
UNSAID = json_mutations.tensor(0, "f32") | {"shape": [UNKNOWN], "stride": [UNKNOWN]}
NOT_BUILT = [
    (
        "graph[1].inputs[0].shape",
        [4, 7],
        ("graph[1].inputs[0].shape: tensor 2 is [4, 7] here and [4, 6] in graph[0].outputs[0]"),
    ),
    (
        "graph[0].attrs.transpose_a",
        {"type": "s64", "value": 1},
        ('graph[0]: attrs.transpose_a.type: expected "bool", got "s64"'),
    ),
    (
        "graph[0].inputs[0]",
        UNSAID,
        (
            "graph[0].inputs[0]: shape: even the number of dims is unknown; oneDNN writes "
            f"[{UNKNOWN}] for every shape that is not completely known"
        ),
    ),
    (
        "graph[0].inputs[1].layout_type",
        "opaque",
        (
            "graph[0].inputs[1]: layout_type: an opaque layout is valid only in the process that "
            "made it"
        ),
    ),
    (
        "graph[1].outputs[0].shape[0]",
        5,
        (
            "graph[1]: op 'ReLU_4' (ReLU): output 0 (dst) must have the shape 4x6 (as follows "
            "from its inputs and attributes), got 5x6"
        ),
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), NOT_BUILT)
def test_what_parses_and_is_no_graph_names_the_place_too(path, value, message):
    document = serialization.parse(changed(path, value))
    with pytest.raises(og.OneDNNError) as e:
        serialization.to_builder(document)
    assert str(e.value) == message


def test_ops_and_types_of_newer_versions_are_read_and_name_the_version_they_need():
    newer = [
        row
        for row in og.ops.OPS.values()
        if row.since > (og.version()["major"], og.version()["minor"])
    ]
    for row in newer:
        document = serialization.parse(changed("graph[1].kind", row.kind))
        for build in (serialization.to_builder, serialization.to_graph):
            needs = rf"^graph\[1\]: .*{row.kind}.* needs oneDNN >= {row.since[0]}.{row.since[1]}"
            with pytest.raises(og.UnimplementedError, match=needs):
                build(document)
    for path, value, since in (
        ("graph[0].inputs[0].property_type", "host_scalar", (3, 9)),
        ("graph[0].inputs[0].dtype", "s64", (3, 12)),
    ):
        document = serialization.parse(changed(path, value))
        if (og.version()["major"], og.version()["minor"]) >= since:
            continue
        for build in (serialization.to_builder, serialization.to_graph):
            with pytest.raises(og.UnimplementedError, match=rf"needs oneDNN >= 3.{since[1]}") as e:
                build(document)
            assert str(e.value).startswith("graph[0].inputs[0]: ")


def test_messages_are_short_whatever_the_names():
    attribute = {"type": "s64", "value": 1}
    document = serialization.parse(changed("graph[0].attrs." + "x" * 100_000, attribute))
    for build in (serialization.to_builder, serialization.to_graph):
        with pytest.raises(og.OneDNNError) as e:
            build(document)
        assert len(str(e.value)) < 1600

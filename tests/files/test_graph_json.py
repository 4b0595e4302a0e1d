"""Graphs go to JSON and back as they were: oneDNN's files, what it dumps, what is built here."""

import copy
import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import json_mutations
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.serialization import (
    AttributeRecord,
    GraphDocument,
    from_builder,
    parse,
    to_builder,
    to_graph,
    to_json,
)
from onednn_graph_py.serialization.links import in_order
from onednn_recipe.settings import Settings

VERSION = (og.version()["major"], og.version()["minor"])
UNKNOWN = og.UNKNOWN_DIM
SOURCES = sorted((Settings.from_env().cache_dir / "src").glob("onednn-3.7.2/tests/benchdnn/inputs"))
FOLDER = SOURCES[-1] / "graph" if SOURCES else None
FILES = sorted(FOLDER.glob("**/*.json")) if FOLDER else []
needs_sources = pytest.mark.skipif(not FILES, reason="oneDNN 3.7.2's sources are not in the cache")

# Files of oneDNN's that are wrong as they are: benchdnn runs some of them with other shapes only.
NO_BUILDER = {
    "op/f32/biasadd_bwd.json": "graph[0]: 'BiasAddBackprop' is not an op kind",
    "pattern/f32/avgpool_3d_chain_fusion.json": "attribute pads_end must have no negative entry",
    "pattern/int8/int8_maxpool_add_mul_fusion.json": (
        "graph[4].inputs[1].shape: tensor 4257 is [1, 64, 1, 1] here and [1, 64, 300, 300] in "
        "graph[3].outputs[0]"
    ),
}
NO_GRAPH = {
    "op/f32/biasadd_bwd.json": "graph[0]: 'BiasAddBackprop' is not an op kind",
    "pattern/f32/avgpool_3d_chain_fusion.json": "graph[0]: op 9 'POOL_0' (AvgPool): attribute pads",
    "pattern/int8/int8_maxpool_add_mul_fusion.json": "graph[4].inputs[1].shape: tensor 4257 is",
    # Strides by which different elements share memory; the builder lets oneDNN choose dst's.
    "op/f32/matmul_2d_4d.json": "output 0 (dst) must have strides that keep its elements apart",
    "pattern/f32/matmul_select.json": "input 0 (src) must have strides that keep its elements",
}


def documents() -> dict[str, GraphDocument]:
    assert FOLDER is not None
    return {str(f.relative_to(FOLDER)): parse(f) for f in FILES}


def raised(build, document: GraphDocument) -> str | None:
    try:
        build(document)
    except og.OneDNNError as e:
        return str(e)
    return None


# -- oneDNN's own files


@needs_sources
def test_each_of_its_files_says_the_same_after_writing():
    assert len(FILES) == 265
    for file in FILES:
        written = to_json(parse(file))
        assert parse(written) == parse(file)
        # Field by field as the file has it, up to what the format lets a file leave out.
        said = json.loads(file.read_text())
        for op in said["graph"]:
            op.setdefault("attrs", {})
        assert json.loads(written) == said, file


@needs_sources
@pytest.mark.parametrize(("build", "refused"), [(to_builder, NO_BUILDER), (to_graph, NO_GRAPH)])
def test_each_of_its_files_is_built_but_those_that_are_wrong(build, refused):
    told = {name: raised(build, document) for name, document in documents().items()}
    failed = {name: why for name, why in told.items() if why is not None}
    assert failed.keys() == refused.keys()
    for name, why in failed.items():
        assert refused[name] in why


@needs_sources
def test_each_of_its_files_comes_back_from_a_builder_with_other_numbers():
    for name, document in documents().items():
        if name in NO_BUILDER:
            continue
        builder = to_builder(document)
        made = from_builder(builder)
        assert told(made) == told(document), name
        again = to_builder(parse(to_json(made)))
        assert shapes(again) == shapes(builder), name
        assert from_builder(again) == made, name


def told(document: GraphDocument) -> list:
    """What a document says of each op, in an order of execution, but for ids, End and layouts."""
    ops = [document.graph[i] for i in in_order(document)]
    return [
        (
            op.kind,
            op.name,
            op.values,
            [(t.dtype, t.property_type) for t in (*op.inputs, *op.outputs)],
        )
        for op in ops
        if op.kind != "End"
    ]


def shapes(builder: og.GraphBuilder) -> list:
    return [
        (n.kind, [(v.shape, v.dtype) for v in (*n.inputs, *n.outputs)], n.attrs)
        for n in builder.nodes
    ]


# -- what oneDNN dumps

DUMPS = """
import os, sys
import onednn_graph_py as og
from onednn_graph_py import serialization
for path in sys.argv[1:]:
    before = set(os.listdir())
    serialization.to_graph(serialization.parse(path)).get_partitions()
    (name,) = (n for n in set(os.listdir()) - before if not n.endswith("-partitioning.json"))
    os.rename(name, os.path.basename(path) + ".dump")
    (name,) = set(os.listdir()) - before - {os.path.basename(path) + ".dump"}
    os.rename(name, os.path.basename(path) + ".partitioned")
"""


def dumped(folder: Path, given: dict[str, GraphDocument]) -> dict[str, tuple[str, str]]:
    """What the linked oneDNN writes of documents, before and after partitioning."""
    for name, document in given.items():
        (folder / name).write_text(to_json(document))
    subprocess.run(
        [sys.executable, "-c", DUMPS, *(str(folder / name) for name in given)],
        cwd=folder,
        env={**os.environ, "ONEDNN_GRAPH_DUMP": "graph"},
        check=True,
        capture_output=True,
    )
    ends = (".dump", ".partitioned")
    return {n: tuple((folder / (n + end)).read_text() for end in ends) for n in given}


def as_dumped(document: GraphDocument) -> dict:
    """What a dump of a document must say, whatever its order, apart from defaults."""
    tensors = {}
    for id, t in document.tensors().items():
        # Of layouts other than strided a dump has no strides.
        stride = t.stride if t.layout_type == "strided" else (UNKNOWN,)
        tensors[id] = replace(t, stride=stride)
    ops = {}
    for op in document.graph:
        rank = len(op.inputs[0].shape) if op.inputs else 0
        values = {}
        for name, value in op.values.items():
            if isinstance(value, tuple):
                value = tuple(float(f"{v:.6g}") if isinstance(v, float) else v for v in value)
            elif isinstance(value, float):
                value = float(f"{value:.6g}")
            elif name == "axis" and value < 0 and "quantize" in op.kind.lower():
                value += rank  # as the dump has it
            values[name] = value
        ids = [t.id for t in op.inputs], [t.id for t in op.outputs]
        ops[op.id] = (op.kind, op.name, values, ids)
    return {"tensors": tensors, "ops": ops}


def is_default(kind: str, name: str, value) -> bool:
    """Of a list, oneDNN's default is the same for every dim that there could be."""
    default = og.ops.OPS[kind].attribute(name).default
    spelt_out = isinstance(value, tuple) and len(value) == og.MAX_NDIMS and len(set(value)) == 1
    return value == default or spelt_out


def without_defaults(told: dict, said: dict) -> dict:
    """`told`, without attributes that `said` does not have and that have their default."""
    ops = {}
    for id, (kind, name, values, ids) in told["ops"].items():
        given = said["ops"][id][2]
        kept = {n: v for n, v in values.items() if n in given or not is_default(kind, n, v)}
        ops[id] = (kind, name, kept, ids)
    return {**told, "ops": ops}


def as_newer_versions_write(text: str) -> str:
    """Older ones have a blank after a list's commas, and no line break at the end."""
    return text.replace(", \n", ",\n").rstrip("\n") + "\n"


def check_dumps(folder: Path, given: dict[str, GraphDocument]) -> None:
    for name, texts in dumped(folder, given).items():
        for text in texts:
            assert to_json(parse(text)) == as_newer_versions_write(text), name
            assert parse(text).version == "{major}.{minor}.{patch}".format(**og.version())
        said, told = as_dumped(given[name]), as_dumped(parse(texts[0]))
        assert without_defaults(told, said) == said, name
        assert set(parse(texts[0]).input_ports) == set(given[name].inputs()), name
        # What is only known once partitions are chosen is no attribute of an op.
        assert as_dumped(parse(texts[1])) == told
        assert "partition_id" in parse(texts[1]).graph[0].attrs


@needs_sources
def test_what_the_library_dumps_of_its_files_says_the_same(tmp_path):
    given = {
        name.replace("/", "_"): document
        for name, document in documents().items()
        if name not in NO_GRAPH
    }
    check_dumps(tmp_path, given)


def test_what_the_library_dumps_of_small_graphs_says_the_same(tmp_path):
    given = {
        name: parse(root)
        for name, root in json_mutations.samples().items()
        if name != "unknown shapes"
    }
    check_dumps(tmp_path, given)


def test_infinite_attributes_and_unknown_dims_as_the_library_dumps_them(tmp_path):
    b = og.GraphBuilder(fpmath_mode="bf16", apply_to_int=True)
    x = b.input((-1, 4))
    b.output(x.clamp(min=-math.inf, max=1 / 3, name='a "name"\n\\').exp())
    ((before, _),) = dumped(tmp_path, {"clamp": from_builder(b)}).values()
    assert '"value": -inf' in before and '"value": 0.333333\n' in before
    with pytest.raises(json.JSONDecodeError):
        json.loads(before)
    document = parse(before)
    clamp = document.graph[0]
    assert clamp.name == 'a "name"\n\\'
    assert clamp.values["min"] == -math.inf and clamp.values["max"] == 0.333333
    assert (document.fpmath_mode, document.fpmath_mode_apply_to_int) == ("bf16", True)
    assert to_json(document) == as_newer_versions_write(before)
    assert to_builder(replace(document, graph=from_builder(b).graph)).inputs[0].shape == (-1, 4)
    # The library says [UNKNOWN_DIM] of any shape that is not wholly known; strides tell the rank.
    assert clamp.inputs[0].shape == (UNKNOWN,) and clamp.inputs[0].stride == (4, 1)
    assert clamp.inputs[0].dims == (-1, -1)


@pytest.mark.skipif(VERSION < (3, 9), reason="host scalars need oneDNN 3.9")
def test_host_scalars_come_back(tmp_path):
    root = json_mutations.samples()["matmul, relu"]
    scalar = json_mutations.tensor(9, "f32", property="host_scalar")
    of = json_mutations.op(
        5,
        "Multiply",
        {},
        [json_mutations.tensor(5, "f32", 4, 6), scalar],
        [json_mutations.tensor(6, "f32", 4, 6)],
    )
    document = parse({**root, "graph": [*root["graph"], of], "input_ports": [0, 1, 9]})
    assert told(from_builder(to_builder(document))) == told(document)
    check_dumps(tmp_path, {"scalar": document})


# -- what is built here


def fork() -> og.GraphBuilder:
    b = og.GraphBuilder()
    x = b.input((2, 3), "f32", name="x", strides=(1, 2))
    w = b.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    y = x.matmul(w, transpose_b=True, name="fc")
    b.output(y, b.relu(y) + 1.5)
    return b


def test_what_is_built_comes_back(tmp_path):
    b = fork()
    path = tmp_path / "fork.json"
    b.save(path)
    assert path.read_text() == b.to_json()
    document = parse(path)
    assert document.version == "{major}.{minor}.{patch}".format(**og.version())
    assert [op.kind for op in document.graph] == ["MatMul", "ReLU", "Add", "End"]
    matmul = document.graph[0]
    assert (matmul.name, matmul.values) == ("fc", {"transpose_b": True})
    assert matmul.attrs["transpose_b"] == AttributeRecord("bool", True)
    x, w = matmul.inputs
    assert (x.shape, x.stride, x.property_type) == ((2, 3), (1, 2), "variable")
    assert (w.shape, w.stride, w.property_type) == ((4, 3), (3, 1), "constant")
    assert document.input_ports == tuple(sorted(t.id for t in (x, w, document.graph[2].inputs[1])))
    assert document.output_ports == (matmul.outputs[0].id, document.graph[2].outputs[0].id)
    loaded = og.load(path)
    assert shapes(loaded) == shapes(b)
    assert loaded.inputs[0].strides == (1, 2)
    assert [v.shape for v in loaded.outputs.values()] == [v.shape for v in b.outputs.values()]
    assert from_builder(loaded) == document


def test_what_is_loaded_runs_and_gives_the_numbers_of_the_model_that_was_saved(tmp_path):
    b = fork()
    model = b.compile()
    model.save(tmp_path / "model.json")
    loaded = og.load(tmp_path / "model.json")
    again = loaded.compile()
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    weights, one_and_a_half = (np.array(v.data) for v in b.constants)
    given = dict(zip((v.name for v in loaded.inputs), (x, weights, one_and_a_half), strict=True))
    expected = x @ weights.T
    for got, wanted in zip(again(**given), (expected, np.maximum(expected, 0) + 1.5), strict=True):
        np.testing.assert_array_equal(got, wanted)
    # A compiled model that came from a file saves what the file said.
    again.save(tmp_path / "again.json")
    assert parse(tmp_path / "again.json") == parse(tmp_path / "model.json")


def test_what_is_added_to_a_loaded_graph_is_written():
    document = parse(json_mutations.samples()["matmul, relu"])
    builder = to_builder(document)
    builder.output(more=builder.outputs["t5"].tanh())
    made = from_builder(builder)
    assert told(made)[:2] == told(document)
    assert [op.kind for op in made.graph[2:]] == ["Tanh", "End"]
    assert made.graph[2].inputs[0] == made.graph[1].outputs[0] == made.graph[3].inputs[0]
    assert made.version == "{major}.{minor}.{patch}".format(**og.version())
    assert len(to_builder(made).outputs) == 2


def test_inputs_and_outputs_of_a_file():
    root = copy.deepcopy(json_mutations.samples()["fork"])
    b = to_builder(parse(root))
    # Add reads what Exp makes, which comes later in the file; End marks tensor 2.
    assert [n.kind for n in b.nodes] == ["Exp", "Add", "Wildcard"]
    assert [v.name for v in b.inputs] == ["t1", "t0"]
    assert list(b.outputs) == ["t4", "t2", "t3"]
    # Ports come first, in their order; those that name no tensor of the graph say nothing.
    root |= {"input_ports": [0, 77, 0], "output_ports": [3, 78]}
    b = to_builder(parse(root))
    assert [v.name for v in b.inputs] == ["t0", "t1"]
    assert list(b.outputs) == ["t3", "t4", "t2"]
    assert len(from_builder(b).output_ports) == 3


def test_unknown_dims_come_back():
    b = og.GraphBuilder()
    inputs = b.input((-1,)), b.input((-1, 8)), b.input((4, -1))
    for value in inputs:
        b.output(value.exp())
    document = from_builder(b)
    told = [(t.shape, t.stride) for t in (op.inputs[0] for op in document.graph)]
    assert told == [
        ((UNKNOWN,), (1,)),
        ((UNKNOWN, 8), (8, 1)),
        ((4, UNKNOWN), (UNKNOWN, 1)),
    ]
    loaded = to_builder(parse(to_json(document)))
    assert [v.shape for v in loaded.inputs] == [(-1,), (-1, 8), (4, -1)]
    assert from_builder(loaded) == document


def test_numbers_come_back_exactly():
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    largest = float(np.finfo(np.float32).max)
    values = [float(v) for v in bits[np.isfinite(bits)]]
    values += [1 / 3, 0.1, 1e-45, -0.0, 5e-324, 1e15, largest, -largest]
    root = json_mutations.samples()["matmul, relu"]
    document = parse(root)
    attrs = {
        "alpha": AttributeRecord("f32", math.inf),
        "scales": AttributeRecord("f32[]", tuple(values)),
        "zps": AttributeRecord("s64[]", (-(2**63), 2**63 - 1, 0)),
        "mode": AttributeRecord("string", 'é\n\r\t\\"\x01\x7f\u2028'),
    }
    document = replace(document, graph=(replace(document.graph[0], attrs=attrs),))
    written = to_json(document)
    assert parse(written) == document
    assert parse(written.encode()) == document
    back = parse(written).graph[0].values["scales"]
    assert [math.copysign(1, v) for v in back] == [math.copysign(1, v) for v in values]


def test_documents_pickle_and_compare():
    document = parse(json_mutations.samples()["int8"])
    assert pickle.loads(pickle.dumps(document)) == document
    other = replace(document, graph=document.graph[:-1])
    assert other != document
    assert set(document.tensors()) == set(range(6)) and set(other.tensors()) == set(range(5))
    assert document.inputs() == (0, 2) and document.outputs() == (5,)


def test_what_json_has_no_place_for_is_refused():
    with pytest.raises(og.InvalidGraphError, match="without ops"):
        og.GraphBuilder().to_json()
    b = og.GraphBuilder()
    x, y = b.input((2,), name="x"), b.input((2,), name="y")
    b.output(x.exp())
    with pytest.raises(og.InvalidGraphError, match="input 'y': no op reads it"):
        b.to_json()
    b.output(z=y.exp(), same=x)
    with pytest.raises(og.InvalidGraphError, match="output 'same': no op makes it"):
        b.to_json()


def test_the_text_that_a_path_could_be():
    text = to_json(parse(json_mutations.samples()["fork"]))
    assert parse("\n " + text) == parse(text) == parse(bytearray(text.encode()))
    assert parse("\ufeff" + text) == parse(b"\xef\xbb\xbf" + text.encode()) == parse(text)
    assert serialization.parse(json.loads(text)) == parse(text)

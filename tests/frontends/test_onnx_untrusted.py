"""ONNX files are not trusted: a typed error names what is wrong, in little time and memory."""

import os
import pickle
import time
import traceback

import numpy as np
import pytest
from front_end_draws import new_seeds
from graphs import HELPERS
from mutation_worker import check
from peaks import peak_within

import onednn_graph_py as og
from onednn_graph_py.tools import command_line as cli

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
loading = pytest.importorskip("onednn_graph_py.onnx.loading")
message_counts = pytest.importorskip("onednn_graph_py.onnx.message_counts")
evaluation = pytest.importorskip("onednn_graph_py.onnx.evaluation")
helper = pytest.importorskip("onnx.helper")
numpy_helper = pytest.importorskip("onnx.numpy_helper")
parser = pytest.importorskip("onnx.parser")

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
SECONDS, BYTES = 20, 3 << 30
"""What no test may take, of the CPU's time since the machine may be busy."""


@pytest.fixture(autouse=True)
def bounds(request):
    start = time.process_time()
    with peak_within(BYTES):
        yield
    if request.node.get_closest_marker("slow") is None:  # those load thousands of files
        assert time.process_time() - start < SECONDS


def model_of(text, opsets='"": 17'):
    return parser.parse_model(f"<ir_version: 8, opset_import: [{opsets}]> {text}")


def graph_of(nodes, inputs=("x",), outputs=("y",), initializers=()):
    return helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, ["n"]) for n in inputs],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
        list(initializers),
    )


def made(*args, **kwargs):
    return helper.make_model(
        graph_of(*args, **kwargs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


SMALL = model_of(
    """g (float[N, 4] x) => (float[N, 4] y, int64[N, 2] i)
        <float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
         float[4] b = {1, 2, 3, 4}, int64[1] k = {2}, int64[3] s = {0, 2, 2}, int64[2] f = {0, 4}> {
        a = MatMul(x, w) c = Add(a, b) d = Reshape(c, s) e = Relu(d) y = Reshape(e, f)
        v, i = TopK <axis = -1> (y, k) }"""
)

X = np.ones((2, 4), np.float32)


def nested(depth, count=2):
    """Functions of which each calls the next one several times."""
    functions = []
    for level in range(depth):
        last = level == depth - 1
        body = [
            helper.make_node(
                "Relu" if last else f"f{level + 1}",
                ["x" if i == 0 else f"t{i}"],
                [f"t{i + 1}"],
                domain="" if last else "own",
            )
            for i in range(count)
        ]
        functions.append(
            helper.make_function(
                "own",
                f"f{level}",
                ["x"],
                [f"t{count}"],
                body,
                [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
            )
        )
    model = made([helper.make_node("f0", ["x"], ["y"], domain="own")])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(functions)
    return model


def subgraphs(depth, count):
    """Ifs inside of Ifs, in one branch or in both."""

    def branch(nodes, name):
        return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info(name, FLOAT, None)])

    leaf = inner = branch([helper.make_node("Relu", ["x"], ["r"])], "r")
    for i in range(depth):
        branches = {"then_branch": inner, "else_branch": inner if count == 2 else leaf}
        node = helper.make_node("If", ["c"], [f"o{i}"], **branches)
        inner = branch([node], f"o{i}")
    return made([node], inputs=("x", "c"), outputs=(f"o{depth - 1}",))


def tensor(dims, data=b"1234", name="w"):
    t = onnx.TensorProto(name=name, data_type=FLOAT, raw_data=data)
    t.dims.extend(dims)
    return t


def external(location, offset=0, length=16, place="initializer", dims=(4,), dtype=FLOAT):
    """A model that adds the data of a file, which one of `PLACES` has."""
    t = onnx.TensorProto(name="w", data_type=dtype, data_location=onnx.TensorProto.EXTERNAL)
    t.dims.extend(dims)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        t.external_data.add(key=key, value=str(value))
    add = helper.make_node("Add", ["x", "w"], ["y"])
    if place == "initializer":
        return made([add], initializers=[t])
    nodes = [helper.make_node("Constant", [], ["w"], value=t), add]
    if place == "node":
        return made(nodes)
    if place == "function":
        return calling(nodes)
    nodes[0].attribute[0].CopyFrom(reference("value", onnx.AttributeProto.TENSOR))
    return calling(nodes, [helper.make_attribute("given", t)])


PLACES = ["initializer", "node", "function", "default"]
"""Where a tensor may be: the last is the default of a function's attribute."""


def reference(name, kind):
    return onnx.AttributeProto(name=name, type=kind, ref_attr_name="given")


def calling(nodes, defaults=()):
    """A model that calls a function of these nodes."""
    model = made([helper.make_node("f", ["x"], ["y"], domain="own")])
    opsets = [helper.make_opsetid("", 17)]
    model.opset_import.append(helper.make_opsetid("own", 1))
    function = helper.make_function("own", "f", ["x"], ["y"], nodes, opsets)
    function.attribute_proto.extend(defaults)
    model.functions.append(function)
    return model


RELU = helper.make_node("Relu", ["x"], ["y"], name="the_node")
ADD = helper.make_node("Add", ["x", "w"], ["y"], name="the_node")

INVALID = {
    "no model": (b"nothing", "not an ONNX model"),
    "empty": (b"", "no graph"),
    "truncated": (SMALL.SerializeToString()[:-40], "not an ONNX model"),
    "a cycle": (
        made([helper.make_node("Relu", ["b"], ["y"]), helper.make_node("Relu", ["y"], ["b"])]),
        "cycle",
    ),
    "a node that reads itself": (made([helper.make_node("Relu", ["y"], ["y"])]), "cycle"),
    "a value that nothing makes": (
        made([helper.make_node("Relu", ["gone"], ["y"], name="the_node")]),
        "'the_node'.*reads 'gone'",
    ),
    "an output that nothing makes": (made([RELU], outputs=("y", "z")), "output 'z'"),
    "two nodes with one result": (made([RELU, RELU]), "y"),
    "a weight of absurd dims": (made([ADD], initializers=[tensor([1 << 40])]), "'w'.*only"),
    "a weight of overflowing dims": (
        made([ADD], initializers=[tensor([1 << 62, 1 << 62])]), "'w'.*only",
    ),
    "a weight of negative dims": (made([ADD], initializers=[tensor([-1])]), "'w'.*shape"),
    "a weight with too little data": (made([ADD], initializers=[tensor([2])]), "'w'"),
    "a weight with too much data": (made([ADD], initializers=[tensor([1], b"12345678")]), "'w'"),
    "functions that double 60 times": (nested(20, 8), "inlined"),
    "functions nested too deep": (nested(1000, 1), "nested deeper"),
    "a newer opset": (
        model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }", '"": 9999'), "opset",
    ),
    "a terabyte from one number": (
        model_of(
            """g (float[N] x) => (float[M] y) <int64[1] s = {1099511627776}> {
                z = ConstantOfShape(s) y = Add(x, z) }"""
        ),
        "ConstantOfShape.*bytes",
    ),
    "a terabyte from a repetition": (
        model_of(
            """g (float[N] x) => (float[M] y) <float[2] w = {1, 2}, int64[1] s = {549755813888}> {
                z = Tile(w, s) y = Add(x, z) }"""
        ),
        "Tile.*bytes",
    ),
    "a copy of two values": (
        made([helper.make_node("Identity", ["x", "x"], ["y", "z"], name="the_node")]),
        r"'the_node' \(Identity\) has 2 inputs; it can have 1$",
    ),
    "no operand": (
        made([helper.make_node("Dropout", [], ["y"], name="the_node")]),
        r"'the_node' \(Dropout\) has 0 inputs; it can have 1 to 3$",
    ),
    "two results": (
        made([helper.make_node("Relu", ["x"], ["y", "z"], name="the_node")]),
        r"'the_node' \(Relu\) has 2 outputs",
    ),
    "a reference outside of functions": (
        made([onnx.NodeProto(
            op_type="Softmax", input=["x"], output=["y"], name="the_node",
            attribute=[onnx.AttributeProto(name="axis", type=2, ref_attr_name="a")],
        )]),
        "'axis' of node 'the_node' refers to one of a function",
    ),
    "two inputs of one name": (made([RELU], inputs=("x", "x")), "2 inputs.*named 'x'"),
    "an opset of 2^40": (
        model_of("g (float[N] x) => (float[N] y) { y = Relu(x) }", '"": 17, "o": 1099511627776'),
        "opset of the domain 'o' is",
    ),
    "data outside of the folder": (external("../data.bin"), "load the model by its path"),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_models_are_refused(name):
    model, message = INVALID[name]
    given_ = model if isinstance(model, bytes) else model.SerializeToString()
    with pytest.raises(og.GraphFormatError, match=message):
        front.load(given_)


def test_the_message_names_the_file(tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"nothing")
    with pytest.raises(og.GraphFormatError, match=r"broken\.onnx"):
        front.load(path)
    with pytest.raises(FileNotFoundError):
        front.load(tmp_path / "none.onnx")
    with pytest.raises(TypeError, match="expected a path"):
        front.load(5)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "too large"])
def test_only_files_of_a_limited_size_are_read(tmp_path, kind):
    path = tmp_path / "m.onnx"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with open(path, "wb") as file:
            file.truncate(loading.MOST_BYTES + 1)
    refused = pytest.raises(og.GraphFormatError, match=rf"m\.onnx: .*{kind}")
    with peak_within(100 << 20), refused:
        front.load(path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("location", "offset", "length", "message"),
    [
        ("../outside.bin", 0, 16, "outside of the model's folder"),
        ("/etc/hostname", 0, 16, "outside of the model's folder"),
        ("link/../../outside.bin", 0, 16, "outside of the model's folder"),
        ("missing.bin", 0, 16, "there is no file"),
        ("inside.bin", 8, 16, "does not fit"),
        ("inside.bin", 0, 8, "does not fit"),
        ("inside.bin", -8, 16, "does not fit|not a valid"),
        ("inside.bin", -1, 16, "does not fit|not a valid"),
        ("inside.bin", "x", 16, "not a valid"),
        ("inside.bin", 0, "x", "not a valid"),
        ("pipe.bin", 0, 16, "there is no file"),
        ("loop.bin", 0, 16, "there is no file"),
        ("a\0.bin", 0, 16, "NUL"),
    ],
)
def test_external_data_stays_in_the_folder_and_fits(
    tmp_path, monkeypatch, location, offset, length, message, place
):
    # What is not below the model's folder may lie below that of the process.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "missing.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (tmp_path / "outside.bin", folder / "inside.bin"):
        path.write_bytes(bytes(16))
    os.symlink(folder, folder / "link")
    os.symlink("loop.bin", folder / "loop.bin")
    os.mkfifo(folder / "pipe.bin")
    model = external(location, offset, length, place)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(og.GraphFormatError, match=message):
        front.load(folder / "m.onnx")


@pytest.mark.parametrize("place", PLACES)
def test_external_data_inside_the_folder_is_read(tmp_path, place):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "w.bin")
    (tmp_path / "m.onnx").write_bytes(external("w.bin", place=place).SerializeToString())
    made_ = front.load(tmp_path / "m.onnx")(np.zeros(4, np.float32))
    np.testing.assert_array_equal(made_, np.arange(4))


@pytest.mark.parametrize(("size", "rest"), [(1 << 20, 1 << 20), (5, 0)])
def test_external_data_that_was_cut_after_loading_is_an_error(tmp_path, size, rest):
    np.zeros(size, np.float32).tofile(tmp_path / "w.bin")
    model = external("w.bin", length=4 * size, dims=(size,))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    loaded = front.load(tmp_path / "m.onnx")
    os.truncate(tmp_path / "w.bin", rest)
    with pytest.raises(og.GraphFormatError, match=rf"w\.bin was cut: it has {rest:,} bytes"):
        loaded(np.zeros(size, np.float32))
    with pytest.raises(og.GraphFormatError, match="does not fit"):
        front.load(tmp_path / "m.onnx")


def test_external_data_with_two_names_is_read(tmp_path):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "stored.bin")
    os.link(tmp_path / "stored.bin", tmp_path / "w.bin")
    (tmp_path / "m.onnx").write_bytes(external("w.bin").SerializeToString())
    made_ = front.load(tmp_path / "m.onnx")(np.zeros(4, np.float32))
    np.testing.assert_array_equal(made_, np.arange(4))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": [-1, -1]}, r"shape \[-1, -1\]"),
        ({"dims": [-4]}, r"shape \[-4\]"),
        ({"dtype": onnx.TensorProto.STRING}, "data type STRING"),
        ({"dtype": onnx.TensorProto.UNDEFINED}, "data type UNDEFINED|not a valid"),
    ],
    ids=str,
)
def test_external_data_has_a_shape_and_a_type(tmp_path, place, change, message):
    (tmp_path / "w.bin").write_bytes(bytes(16))
    model = external("w.bin", place=place, **change)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(og.GraphFormatError, match=message):
        front.load(tmp_path / "m.onnx")


def test_nodes_that_name_the_same_data_take_limited_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MOST_BYTES", 1 << 20)
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(1 << 18)
    model = external("w.bin", 0, 1 << 18, "node", dims=[1 << 16])
    constant = model.graph.node[0]
    for i in range(4):
        another = model.graph.node.add()
        another.CopyFrom(constant)
        another.output[0] = f"w{i}"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(og.GraphFormatError, match="more than 1,048,576 bytes of files"):
        front.load(tmp_path / "m.onnx")


@pytest.mark.parametrize("called", [True, False])
def test_graphs_that_are_attributes_of_functions_are_refused(called):
    node = helper.make_node("If", ["x"], ["y"], name="the_node")
    node.attribute.append(reference("then_branch", onnx.AttributeProto.GRAPH))
    model = calling([node])
    if not called:
        del model.graph.node[:]
        model.graph.node.append(RELU)
    with pytest.raises(og.GraphFormatError, match="'then_branch' of node 'the_node' refers to a"):
        front.load(model.SerializeToString())


def test_defaults_that_are_graphs_are_refused():
    inner = helper.make_graph([], "inner", [], [])
    model = calling([RELU], [helper.make_attribute("given", inner)])
    with pytest.raises(og.GraphFormatError, match="'given' of function 'f' has a default of type"):
        front.load(model.SerializeToString())


def test_a_result_larger_than_memory_is_refused_at_the_call():
    model = model_of(
        """g (float[N] x) => (float[M, N] y) <int64[2] s = {281474976710656, 1}> {
            y = Expand(x, s) }"""
    )
    with pytest.raises(og.GraphFormatError, match="Expand"):
        front.load(model)(np.ones(4, np.float32))


@pytest.mark.parametrize("fallback", ["auto", "reference"])
def test_more_of_the_largest_than_there_are_takes_no_memory(fallback):
    model = model_of(
        """g (float[N, 4] x) => (float[N, 4] y, int64[N, 4] i) <int64[1] k = {1073741824}> {
            a = Relu(x) y, i = TopK(a, k) }"""
    )
    with peak_within(1 << 30), pytest.raises(og.OneDNNError, match="TopK"):
        front.load(model, fallback=fallback)(X)


@pytest.mark.parametrize("repeats", ["1, 10000000", "300, 10000000, 2"])
def test_many_repeats_are_refused_or_computed_in_time(repeats):
    dims = repeats.count(",") + 1
    model = model_of(
        f"""g (float[N, 2] x) => (float[M, K] y) <int64[{dims}] s = {{{repeats}}}> {{
            a = Relu(x) y = Tile(a, s) }}"""
    )
    call(model, np.ones((1, 2), np.float32))


def test_deep_subgraphs_are_refused():
    with pytest.raises(og.GraphFormatError, match="nested deeper"):
        front.load(subgraphs(28, 1).SerializeToString())


def test_many_subgraphs_are_loaded_in_time():
    front.load(subgraphs(11, 2).SerializeToString())


# -- how much is computed while a model is prepared

ADDS = " ".join(f"a{i} = Add(c, c) r{i} = ReduceMax<keepdims = 0>(a{i})" for i in range(16))
PRODUCTS = " ".join(f"a{i + 1} = MatMul(a{i}, a0)" for i in range(6))
SCATTERS = " ".join(f"a{i + 1} = ScatterElements(a{i}, k, a{i})" for i in range(3))
MUCH = {
    "bytes": f"""<int64[1] s = {{134217728}}> {{ c = ConstantOfShape(s) {ADDS}
        q = Sum({", ".join(f"r{i}" for i in range(16))}) y = Add(x, q) }}""",
    "products": f"""<int64[2] s = {{4096, 4096}}> {{ a0 = ConstantOfShape(s) {PRODUCTS}
        q = ReduceMax<keepdims = 0>(a6) y = Add(x, q) }}""",
    "an Einsum": """<int64[1] s = {100}> { a = ConstantOfShape(s)
        q = Einsum<equation = "a,b,c,d,e,f,g,h,i,...->">(a, a, a, a, a, a, a, a, a, a)
        y = Add(x, q) }""",
    "loops of Python": f"""<int64[1] s = {{4194304}}> {{ a0 = ConstantOfShape(s)
        k = ConstantOfShape<value = int64[1] {{0}}>(s) {SCATTERS}
        q = ReduceMax<keepdims = 0>(a3) y = Add(x, q) }}""",
}


@pytest.mark.parametrize("name", MUCH)
def test_what_would_take_much_is_not_computed_by_loading(name):
    start = time.process_time()
    with peak_within(2200 << 20):
        front.load(model_of(f"g (float[N] x) => (float[N] y) {MUCH[name]}"))
    assert time.process_time() - start < 8


@pytest.mark.parametrize("limit", [{"folding_bytes": 1 << 10}, {"folding_work": 1 << 10}], ids=str)
def test_what_is_not_computed_by_loading_runs_when_called(limit):
    model = model_of(
        """g (float[N] x) => (float[N] y) <int64[1] s = {4096}> {
            c = ConstantOfShape<value = float[1] {2}>(s) a = Add(c, c)
            r = ReduceMax<keepdims = 0>(a) y = Add(x, r) }"""
    )
    left = []
    for options in ({}, limit):
        loaded = front.load(model, **options)
        np.testing.assert_array_equal(loaded(np.zeros(4, np.float32)), np.full(4, 4, np.float32))
        left.append({n for p in loaded.report().programs for part in p.left for n in part.nodes})
    assert not left[0] and left[1]
    with pytest.raises(og.InvalidArgumentsError, match="at least 1, got 0"):
        front.load(model, **dict.fromkeys(limit, 0))


def test_what_weights_become_is_computed_in_proportion_to_them(monkeypatch):
    monkeypatch.setattr(evaluation, "MOST_COMPUTED", 0)
    monkeypatch.setattr(evaluation, "MOST_WORK", 0)
    w = numpy_helper.from_array(np.arange(1 << 14, dtype=np.float16).reshape(128, 128), "w")
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], to=FLOAT),
        helper.make_node("Transpose", ["f"], ["t"]),
        helper.make_node("Mul", ["t", "t"], ["m"]),
        helper.make_node("MatMul", ["x", "m"], ["y"]),
    ]
    model = made(nodes, initializers=[w])
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 128
    loaded = front.load(model)
    x = np.ones((2, 128), np.float32)
    want = x @ np.float32(np.arange(1 << 14).reshape(128, 128).T ** 2)
    np.testing.assert_allclose(loaded(x), want, rtol=1e-5)
    (program,) = loaded.report().programs
    assert program.nodes == 1


# -- counts, before objects are made


def field(number, content):
    return wire_number(number << 3 | 2) + wire_number(len(content)) + content


def wire_number(value):
    made_ = b""
    while value > 127:
        made_ += bytes([value & 127 | 128])
        value >>= 7
    return made_ + bytes([value])


MANY = {
    "graphs": field(7, field(1, field(5, b"\x5a\x00" * 500_000))),
    "graphs inside": field(7, field(1, field(5, b"\x32\x00" * 500_000))),
    "functions": b"\xca\x01\x00" * 500_000,
    "nodes": field(7, b"\x0a\x00" * 500_000),
    "initializers": field(7, b"\x2a\x00" * 500_000),
    "attributes": field(7, field(1, b"\x2a\x00" * 2_000_000)),
    "names": field(7, field(1, b"\x0a\x00" * 10_000_000)),
    "numbers": field(7, field(1, field(5, b"\x40\x05" * 40_000_000))),
    "packed numbers": field(7, field(1, field(5, field(8, bytes(1 << 27))))),
    "opsets": b"\x42\x00" * 9_000_000,
    "groups of fields": field(7, b"\x9b\x06" + b"\x0a\x00" * 500_000 + b"\x9c\x06"),
}


@pytest.mark.parametrize("name", MANY)
def test_counts_are_limited_before_objects_are_made(name):
    start = time.process_time()
    with peak_within(400 << 20), pytest.raises(og.GraphFormatError, match=r"it has more|its lists"):
        front.load(MANY[name])
    assert time.process_time() - start < 8


def test_large_data_is_passed_over():
    w = tensor([1 << 26], bytes(1 << 28))
    content = made([ADD], initializers=[w]).SerializeToString()
    times = []
    for _ in range(5):  # a busy machine slows down some of them
        start = time.thread_time()
        message_counts.check_counts(content)
        times.append(time.thread_time() - start)
    assert min(times) < 0.05


# -- strings


def texts(name, values):
    return onnx.TensorProto(
        name=name, data_type=onnx.TensorProto.STRING, dims=[len(values)], string_data=values
    )


@pytest.mark.parametrize("fallback", ["auto", "reference"])
def test_strings_are_read_by_islands(fallback):
    equal = made(
        [
            helper.make_node("Equal", ["s", "t"], ["e"]),
            helper.make_node("Cast", ["e"], ["f"], to=FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        initializers=[
            texts("s", [b"a", b"b\0", b"c", b""]),
            texts("t", [b"a", b"b", b"\xff", b""]),
        ],
    )
    equal.opset_import[0].version = 19
    call(equal.SerializeToString())
    cast = made(
        [
            helper.make_node("Cast", ["s"], ["f"], to=FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        initializers=[texts("s", [b"1", b"2.5", b"3", b"4"])],
    )
    found = front.load(cast.SerializeToString(), fallback=fallback)(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, np.float32([1, 2.5, 3, 4]))


def test_strings_take_as_much_memory_as_they_have():
    model = made([ADD], initializers=[texts("s", [b"a" * (1 << 22)] + [b""] * 10_000)])
    with peak_within(300 << 20):
        call(model.SerializeToString())


def test_strings_that_double_are_not_computed_by_loading():
    nodes = [helper.make_node("StringConcat", [f"s{i}"] * 2, [f"s{i + 1}"]) for i in range(40)]
    nodes += [
        helper.make_node("Equal", ["s40", "s40"], ["e"]),
        helper.make_node("Cast", ["e"], ["f"], to=FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    model = made(nodes, initializers=[texts("s0", [b"ab"])])
    model.opset_import[0].version = 20
    with peak_within(100 << 20):
        front.load(model.SerializeToString())


# -- names

EVIL = "\x1b]0;evil\x07\x9b31m\u202e"
CONTROLS = {chr(c) for c in [*range(32), *range(0x7F, 0xA0)]} - {"\n", "\t"}
CONTROLS |= {"\u2028", "\u2029", "\u202e"}
NAMED = {
    "an output that nothing makes": made([RELU], outputs=("y", EVIL)),
    "an input that nothing makes": made([helper.make_node("Add", ["x", EVIL], ["y"])]),
    "an op": made([helper.make_node(EVIL, ["x"], ["y"])]),
    "a node": made([helper.make_node("Nonsense", ["x"], ["y"], name=EVIL)]),
    "a domain": made([helper.make_node("Relu", ["x"], ["y"], domain=EVIL)]),
    "a weight": made(
        [helper.make_node("Add", ["x", EVIL], ["y"])], initializers=[tensor([2], name=EVIL)]
    ),
    "an input": made([helper.make_node("Relu", [EVIL], ["y"])], inputs=(EVIL,)),
    "an output": made([helper.make_node("Relu", ["x"], [EVIL])], outputs=(EVIL,)),
    "an attribute": made([helper.make_node("Softmax", ["x"], ["y"], **{EVIL: 1})]),
    "an equation": made([helper.make_node("Einsum", ["x"], ["y"], equation=EVIL)]),
    "unnamed weights": made([RELU], initializers=[tensor([1], name="")] * 100),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_terminals_get_no_control_characters_of_models(tmp_path, capfd, name):
    path = tmp_path / "m.onnx"
    path.write_bytes(NAMED[name].SerializeToString())
    said = []
    try:
        loaded = front.load(path)
        said.append(repr(loaded))
        loaded(np.ones(4, np.float32))
        said.append(str(loaded.report()))
    except og.OneDNNError as e:
        said.append("".join(traceback.format_exception(e)))
    assert cli.main(["onnx", str(path)]) in (0, 1, 2)
    out, errors = capfd.readouterr()
    assert not CONTROLS & set("".join([*said, out, errors])), said
    assert errors.count("\n") < 24  # ten of a kind, twice


def test_an_unknown_op_is_named():
    model = made([helper.make_node("Nonsense", ["x"], ["y"], name="the_node")])
    with pytest.raises(og.OneDNNError, match="Nonsense"):
        front.load(model)(np.ones(4, np.float32))


def call(model, x=X):
    """Load and call a model: it gives results, or one of the package's errors."""
    try:
        loaded = front.load(model)
        loaded(*[x] * len(loaded.input_names))
    except (og.OneDNNError, TypeError) as e:
        assert str(e)
        if isinstance(e, TypeError):
            raise


MUTATIONS = HELPERS / "onnx_mutations.py"


def test_five_hundred_mutated_files_give_typed_errors_or_results():
    counted = check(MUTATIONS, 0, 500, 1)
    assert min(counted["load GraphFormatError:"], counted["all"]) > 50, counted


@pytest.mark.slow
def test_fifty_thousand_mutated_files_give_typed_errors_or_results():
    check(MUTATIONS, new_seeds(50_000).start, 50_000, os.cpu_count() or 1)


@pytest.mark.parametrize("equation", [b"\0\0\0", b". ij", b"i...j...->ij", b"ij->i->", b"i-j"])
def test_an_einsum_that_onnx_would_read_for_ever_is_refused(equation):
    model = model_of('g (float[2, 3] x) => (float[A] y) { y = Einsum<equation = "ij->i">(x) }')
    model.graph.node[0].attribute[0].s = equation
    with pytest.raises(og.ExecutionError, match="island of Einsum fails"):
        front.load(model)(np.ones((2, 3), np.float32))


def test_random_inputs_of_a_size_that_no_array_has_are_refused():
    text = "g (float[0, 5, 4611686018427387904] x) => (float[A, B, C] y) { y = Relu(x) }"
    model = front.load(model_of(text), fallback="reference")
    with pytest.raises(
        og.InvalidShapeError, match=r"input 'x': no array has the shape \(0, 5, 46116860"
    ):
        model.random_inputs()


def test_weights_of_f8_go_through_pickles():
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT8E5M2, [2, 2], [1.0, 2.0, -3.0, 4])
    nodes = [
        onnx.helper.make_node("Cast", ["w"], ["wide"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("MatMul", ["x", "wide"], ["y"]),
    ]
    x, y = (
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n", 2]) for n in ("x", "y")
    )
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [weights])
    opsets = [onnx.helper.make_opsetid("", 19)]
    model = front.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))
    given = np.array([[1, 10]], np.float32)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(given), [[-29, 42]])


def test_a_cast_to_no_type_is_no_rounding():
    node = onnx.helper.make_node("Cast", ["h"], ["y"])
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])
    node.attribute.append(onnx.helper.make_attribute("to", kind))
    half = onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT16, [2])
    wide = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph([node], "g", [half], [wide])
    opsets = [onnx.helper.make_opsetid("", 19)]
    with pytest.raises(og.OneDNNError):
        front.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))(
            np.ones(2, np.float16)
        )

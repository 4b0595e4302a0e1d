"""Every member of oneDNN's API that the inventory lists is here, or left out for a stated reason.

`RULES` decides each row of data/api.tsv: the first rule that knows a row says which Python
expressions must exist, or why there is none. The numbers of rows of each rule are asserted, so a
row can't drop out silently.
"""

import re
from collections import Counter

import pytest
from graphs import LINKED, before, relu_model
from inventory import PATH, Row, rows

import onednn_graph_py as og

NAMES = {name: getattr(og, name) for name in og.__all__}

# C++ class or enumeration -> ours.
OWNERS = {
    "dnnl::engine": "engine",
    "dnnl::engine::kind": "engine.kind",
    "dnnl::stream": "stream",
    "dnnl::stream::flags": "stream.flags",
    "dnnl::status": "status",
    "dnnl::fpmath_mode": "fpmath_mode",
    "dnnl::accumulation_mode": "accumulation_mode",
    "dnnl::cpu_isa": "cpu_isa",
    "dnnl::cpu_isa_hints": "cpu_isa_hints",
    "dnnl::error": "OneDNNError",
    "dnnl::graph::status": "status",
    "dnnl::graph::graph_dump_mode": "graph_dump_mode",
    **{
        f"dnnl::graph::{name.replace('.', '::')}": name
        for name in (
            *("allocator", "graph", "op", "op.kind", "op.attr", "partition", "partition.policy"),
            *("compiled_partition", "tensor", "logical_tensor", "logical_tensor.data_type"),
            *("logical_tensor.layout_type", "logical_tensor.property_type"),
        )
    },
}
# C enumeration -> ours, the prefix of its enumerators, and those that differ in more than it.
C_ENUMS = {
    "dnnl_status_t": ("status", "dnnl_"),
    "dnnl_data_type_t": ("logical_tensor.data_type", "dnnl_"),
    "dnnl_fpmath_mode_t": ("fpmath_mode", "dnnl_fpmath_mode_"),
    "dnnl_accumulation_mode_t": ("accumulation_mode", "dnnl_accumulation_mode_"),
    "dnnl_engine_kind_t": ("engine.kind", "dnnl_"),
    "dnnl_stream_flags_t": ("stream.flags", "dnnl_stream_"),
    "dnnl_graph_layout_type_t": ("logical_tensor.layout_type", "dnnl_graph_layout_type_"),
    "dnnl_graph_tensor_property_t": (
        "logical_tensor.property_type",
        "dnnl_graph_tensor_property_",
    ),
    "dnnl_graph_partition_policy_t": ("partition.policy", "dnnl_graph_partition_policy_"),
    "dnnl_graph_op_kind_t": ("op.kind", "dnnl_graph_op_"),
    "dnnl_graph_op_attr_t": ("op.attr", "dnnl_graph_op_attr_"),
    "dnnl_cpu_isa_t": ("cpu_isa", "dnnl_cpu_isa_"),
    "dnnl_cpu_isa_hints_t": ("cpu_isa_hints", "dnnl_cpu_isa_"),
    "dnnl_graph_dump_mode_t": ("graph_dump_mode", "dnnl_graph_dump_mode_"),
}
C_SPELLING = {
    ("dnnl_engine_kind_t", "any_engine"): "any",
    ("dnnl_cpu_isa_t", "default"): "isa_default",
    ("dnnl_graph_op_kind_t", "last_symbol"): "LastSymbol",
    ("dnnl_graph_op_kind_t", "batch_norm_backward"): "BatchNormTrainingBackward",
}
# C function -> ours, where dropping the prefix and naming the class does not say it.
C_FUNCTIONS = {
    "dnnl_engine_create": "engine.__init__",
    "dnnl_stream_create": "stream.__init__",
    "dnnl_version": "version",
    "dnnl_graph_make_engine_with_allocator": "make_engine_with_allocator",
    "dnnl_graph_allocator_create": "allocator.__init__",
    "dnnl_graph_logical_tensor_init": "logical_tensor.__init__",
    "dnnl_graph_logical_tensor_init_with_dims": "logical_tensor.__init__",
    "dnnl_graph_logical_tensor_init_with_strides": "logical_tensor.__init__",
    "dnnl_graph_tensor_create": "tensor.__init__",
    "dnnl_graph_tensor_create_scalar": "tensor.make_scalar_tensor",
    "dnnl_graph_op_create": "op.__init__",
    "dnnl_graph_op_set_attr_f32": "op.set_attr",
    "dnnl_graph_op_set_attr_bool": "op.set_attr",
    "dnnl_graph_op_set_attr_s64": "op.set_attr",
    "dnnl_graph_op_set_attr_str": "op.set_attr",
    "dnnl_graph_partition_create_with_op": "partition.__init__",
    "dnnl_graph_partition_get_op_num": "partition.get_ops_num",
    "dnnl_graph_partition_get_input_ports_num": "partition.get_input_ports",
    "dnnl_graph_partition_get_output_ports_num": "partition.get_output_ports",
    "dnnl_graph_compiled_partition_create": "partition.compile",
    "dnnl_graph_compiled_partition_execute_v2": "compiled_partition.execute",
    "dnnl_graph_graph_create": "graph.__init__",
    "dnnl_graph_graph_create_with_fpmath_mode": "graph.__init__",
    "dnnl_graph_add_op": "graph.add_op",
    "dnnl_graph_graph_filter": "graph.get_partitions",
    "dnnl_graph_graph_get_partition_num": "graph.get_partitions",
}
MACROS = {
    "DNNL_GRAPH_UNKNOWN_NDIMS": "UNKNOWN_NDIMS",
    "DNNL_GRAPH_UNKNOWN_DIM": "UNKNOWN_DIM",
    "DNNL_RUNTIME_DIM_VAL": "UNKNOWN_DIM",
    "DNNL_MAX_NDIMS": "MAX_NDIMS",
    "DNNL_MEMORY_ALLOCATE": "tensor.__init__",
    "DNNL_VERSION_MAJOR / DNNL_VERSION_MINOR / DNNL_VERSION_PATCH": "version",
    "DNNL_VERSION_HASH": "version",
}
OPERATORS = {
    "operator|": "__or__",
    "operator&": "__and__",
    "operator^": "__xor__",
    "operator~": "__invert__",
    "operator|=": "__or__",
    "operator&=": "__and__",
    "operator^=": "__xor__",
    "operator==": "__eq__",
    "operator!=": "__ne__",
    "operator bool": "__bool__",
    "get": "get",
}
CLASSES = [
    *("engine", "stream", "graph", "op", "partition", "compiled_partition", "tensor"),
    *("logical_tensor", "allocator"),
]
HANDLES = ["engine", "stream", "graph", "partition"]


class Left(str):
    """The reason why a row has no Python of its own."""


def interop(row: Row):
    """OpenCL, SYCL and threadpool interoperation."""
    text = f"{row.owner} {row.member}"
    if re.search(r"(ocl|sycl)(_interop|_allocate_f|_deallocate_f)|threadpool", text):
        return Left("needs objects of OpenCL's, SYCL's or a thread pool's C++ headers")


def profiling(row: Row):
    """The experimental profiling API."""
    text = f"{row.owner} {row.member} {row.signature}"
    if "DNNL_EXPERIMENTAL_PROFILING" in row.notes and "jit_profiling" not in row.member:
        return Left("only in builds with DNNL_EXPERIMENTAL_PROFILING, for GPU streams")
    if "profiling_data" in text:
        return Left("only in builds with DNNL_EXPERIMENTAL_PROFILING, for GPU streams")


def c_enum_value(row: Row):
    """An enumerator of the C API."""
    if row.kind != "enum value" or row.owner not in C_ENUMS:
        return None
    ours, prefix = C_ENUMS[row.owner]
    name = row.member.removeprefix(prefix)
    name = C_SPELLING.get((row.owner, name), name)
    if row.owner == "dnnl_cpu_isa_hints_t":
        name = name.removeprefix("hints_")
    if row.member in {"dnnl_data_type_max", "dnnl_stream_flags_max"}:
        return Left("marks the width of a C enumeration")
    if ours == "op.kind":
        found = [k for k in og.op.kind.__members__ if k.lower() == name.replace("_", "").lower()]
        return f"op.kind.{found[0] if found else name}"
    if ours == "logical_tensor.data_type" and name in {"f64", "e8m0", "f4_e2m1", "f4_e3m0"}:
        return Left("a data type of the primitive API; Graph API has none of it")
    if ours == "logical_tensor.data_type" and name == "data_type_undef":
        name = "undef"
    return f"{ours}.{name}"


def enumeration(row: Row):
    """An enumeration itself."""
    if row.kind == "enum":
        return OWNERS.get(row.owner) or C_ENUMS[row.owner][0]


def enum_value(row: Row):
    """An enumerator of the C++ API."""
    if row.kind == "enum value":
        return f"{OWNERS[row.owner]}.{row.member}"


def destructor(row: Row):
    """What ends an object's life."""
    if row.member.endswith("_destroy") or row.kind == "destructor":
        return Left("Python objects end by themselves")


def c_function(row: Row):
    """A function of the C API."""
    if row.owner != "(C API)" or row.kind != "function":
        return None
    if row.member in C_FUNCTIONS:
        return C_FUNCTIONS[row.member]
    name = row.member.removeprefix("dnnl_").removeprefix("graph_")
    for owner in sorted(CLASSES, key=len, reverse=True):
        if name.startswith(owner + "_") and hasattr(getattr(og, owner), name[len(owner) + 1 :]):
            return f"{owner}.{name[len(owner) + 1 :]}"
    return name


def handle(row: Row):
    """What every handle class inherits."""
    if row.owner != "dnnl::handle" and not row.member.startswith("handle (inherited"):
        return None
    if row.member in OPERATORS:
        return [f"{owner}.{OPERATORS[row.member]}" for owner in HANDLES]
    return Left("wraps, copies, moves or resets a raw C handle; Python objects own theirs")


def typedef(row: Row):
    """A name for a type."""
    if row.kind != "typedef":
        return None
    if row.owner == "dnnl::graph" and row.member in NAMES:
        return row.member
    return Left("a name for a C or C++ type, which Python does not declare")


def c_struct(row: Row):
    """A C structure and its fields."""
    getters = {
        "dnnl_graph_logical_tensor_t": {
            "": "logical_tensor",
            "id": "logical_tensor.get_id",
            "ndims": "logical_tensor.get_dims",
            "dims": "logical_tensor.get_dims",
            "data_type": "logical_tensor.get_data_type",
            "property": "logical_tensor.get_property_type",
            "layout_type": "logical_tensor.get_layout_type",
            "layout": ["logical_tensor.get_strides", "logical_tensor.get_layout_id"],
        },
        "dnnl_graph_inplace_pair_t": dict.fromkeys(
            ["", "input_id", "output_id"], "compiled_partition.get_inplace_ports"
        ),
        "dnnl_version_t": dict.fromkeys(
            ["", "major", "minor", "patch", "hash", "cpu_runtime", "gpu_runtime"], "version"
        ),
    }
    if row.owner in getters:
        return getters[row.owner][row.member]


def error(row: Row):
    """dnnl::error."""
    if row.owner == "dnnl::error":
        return {
            "": "OneDNNError",
            "status": "OneDNNError.status",
            "message": "OneDNNError.args",
            "error": "OneDNNError.__init__",
            "what": "OneDNNError.__str__",
            "wrap_c_api": Left("turns a C status into an exception, which every call here does"),
        }[row.member]


def constructor(row: Row):
    """A constructor."""
    if row.kind != "constructor":
        return None
    if re.search(r"\(dnnl_\w+_t \w+\)|c_data", row.signature) and row.owner in OWNERS:
        return Left("wraps a raw C object; Python objects own theirs")
    return f"{OWNERS[row.owner]}.__init__"


def operator(row: Row):
    """An operator."""
    if row.member == "operator=":
        return Left("assignment; Python assigns names")
    if row.member.startswith("operator"):
        flags = "graph_dump_mode" if row.owner == "dnnl::graph" else "stream.flags"
        return f"{flags}.{OPERATORS[row.member]}"


def conversion(row: Row):
    """A conversion between the C++ and the C enumerations."""
    if row.member == "convert_to_c":
        return Left("turns a C++ enumerator into C's; there is one Python enumerator for both")


def macro(row: Row):
    """A preprocessor macro."""
    if row.kind != "macro":
        return None
    if row.member in MACROS:
        return MACROS[row.member]
    if row.member == "DNNL_MEMORY_NONE":
        return Left("the null address, which the mirror refuses")
    if row.member.startswith("DNNL_JIT_PROFILE"):
        return Left("flags of set_jit_profiling_flags, which takes and documents the numbers")
    return Left("describes the build to the preprocessor; version() tells the runtimes")


def cpp_class(row: Row):
    """A C++ class."""
    if row.kind == "class":
        return OWNERS[row.owner]


def member(row: Row):
    """A method of a C++ class."""
    if row.kind in {"method", "static"} and row.owner in OWNERS:
        return f"{OWNERS[row.owner]}.{row.member}"


def free_function(row: Row):
    """A function of dnnl:: or dnnl::graph::."""
    if row.kind == "function" and row.owner in {"dnnl", "dnnl::graph"}:
        return row.member


RULES = [
    interop,
    profiling,
    c_enum_value,
    enumeration,
    enum_value,
    destructor,
    c_function,
    handle,
    typedef,
    c_struct,
    error,
    conversion,
    operator,
    constructor,
    macro,
    cpp_class,
    member,
    free_function,
]


def decide(row: Row):
    """Return the first rule that knows a row, and what it says."""
    for rule in RULES:
        answer = rule(row)
        if answer is not None:
            return rule.__name__, answer
    raise AssertionError(f"no rule knows {row}")


def resolve(path: str):
    """Return the object that a dotted path names, from the package's public names on."""
    first, *rest = path.split(".")
    value = NAMES[first]
    for name in rest:
        value = getattr(value, name)
    return value


DECIDED = [(row, *decide(row)) for row in rows()]
ALL = 854
LAST = {"LastSymbol", "dnnl_graph_op_last_symbol"}


def test_every_row_is_decided():
    assert len(DECIDED) == ALL


def row_id(row):
    return f"{row.owner}.{row.member}-{row.kind}-{row.since}"


def required():
    for row, _, answer in DECIDED:
        if not isinstance(answer, Left):
            for path in [answer] if isinstance(answer, str) else answer:
                yield row, path


@pytest.mark.parametrize(
    ("row", "path"), [pytest.param(r, p, id=row_id(r)) for r, p in required() if r.is_linked]
)
def test_a_member_of_the_linked_onednn_is_present(row, path):
    found = resolve(path)  # raises where it is missing
    number = re.search(r"= (-?(?:0x)?[0-9a-fA-F]+)[uUlL]*$", row.signature)
    # LastSymbol's number is the one of the last row that applies: test_enums has it.
    if row.kind == "enum value" and number and row.member not in LAST:
        assert found.value == int(number.group(1), 0)


# Newer members whose name is older, or which are present to say what they need.
OLDER_NAMES = {
    "compiled_partition.execute": "its new argument is tested in test_compiled_partition",
    "op.kind.LastSymbol": "its number moves with each version, see test_enums",
}
SAY_WHAT_THEY_NEED = {
    "set_dump_mode": lambda: og.set_dump_mode("graph"),
    "tensor.make_scalar_tensor": lambda: og.tensor.make_scalar_tensor(
        og.logical_tensor(0, "f32", [], "strided"), 1
    ),
    "compiled_partition.get_scratchpad_logical_tensor": (
        lambda: relu_model().compiled.get_scratchpad_logical_tensor()
    ),
}
NEWER = [(r, p) for r, p in required() if not r.is_linked]


@pytest.mark.skipif(not NEWER, reason=f"oneDNN {LINKED} has all that the inventory lists")
def test_a_newer_member_is_absent_or_says_which_onednn_it_needs():
    for row, path in NEWER:
        try:
            resolve(path)
        except (KeyError, AttributeError):
            continue
        if path in OLDER_NAMES or path.endswith("__init__"):
            continue
        assert path in SAY_WHAT_THEY_NEED, f"{path} is present, but newer: {row}"
        major, minor = row.version
        with pytest.raises(og.UnimplementedError, match=rf"needs oneDNN >= {major}\.{minor}"):
            SAY_WHAT_THEY_NEED[path]()


@before(3, 12)
def test_a_newer_enumerators_name_says_which_onednn_it_needs():
    constructors = {
        "op.kind": lambda name: og.op(0, name),
        "op.attr": lambda name: og.op(0, "MatMul").set_attr(name, "strict"),
        "logical_tensor.data_type": lambda name: og.logical_tensor(0, name),
        "logical_tensor.property_type": lambda name: og.logical_tensor(
            0, "f32", [], "strided", name
        ),
        "cpu_isa": og.set_max_cpu_isa,
    }
    tried = 0
    for row, _ in NEWER:
        ours = OWNERS.get(row.owner)
        if row.kind == "enum value" and ours in constructors and row.member != "LastSymbol":
            major, minor = row.version
            with pytest.raises(og.UnimplementedError, match=rf"needs oneDNN >= {major}\.{minor}"):
                constructors[ours](row.member)
            tried += 1
    assert tried > 0


EXPECTED_ROWS = {
    "interop": 63,
    "profiling": 14,
    "c_enum_value": 217,
    "enumeration": 29,
    "enum_value": 218,
    "destructor": 8,
    "c_function": 75,
    "handle": 17,
    "typedef": 48,
    "c_struct": 18,
    "error": 6,
    "conversion": 3,
    "operator": 15,
    "constructor": 26,
    "macro": 20,
    "cpp_class": 9,
    "member": 47,
    "free_function": 21,
}
EXPECTED_LEFT = {
    "needs objects of OpenCL's, SYCL's or a thread pool's C++ headers": 63,
    "a name for a C or C++ type, which Python does not declare": 45,
    "only in builds with DNNL_EXPERIMENTAL_PROFILING, for GPU streams": 14,
    "wraps, copies, moves or resets a raw C handle; Python objects own theirs": 13,
    "describes the build to the preprocessor; version() tells the runtimes": 11,
    "Python objects end by themselves": 8,
    "a data type of the primitive API; Graph API has none of it": 4,
    "marks the width of a C enumeration": 2,
    "turns a C++ enumerator into C's; there is one Python enumerator for both": 3,
    "wraps a raw C object; Python objects own theirs": 3,
    "turns a C status into an exception, which every call here does": 1,
    "assignment; Python assigns names": 1,
    "the null address, which the mirror refuses": 1,
    "flags of set_jit_profiling_flags, which takes and documents the numbers": 1,
}


def test_the_number_of_rows_of_each_rule_is_known():
    assert Counter(rule for _, rule, _ in DECIDED) == EXPECTED_ROWS


def test_the_number_of_rows_left_out_for_each_reason_is_known():
    assert Counter(str(a) for _, _, a in DECIDED if isinstance(a, Left)) == EXPECTED_LEFT


def test_the_copy_names_no_host():
    text = PATH.read_text()
    assert not re.search(r"https?:|www\.|\.(com|org|net|io)\b", text)

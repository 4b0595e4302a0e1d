"""A graph as a C++ program against oneDNN's own header."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy.typing as npt

from ...model.building.builder import GraphBuilder
from ...model.building.value import row_major
from ...ops.terms import AttributeType, AttributeValue
from .program import ExportedOp, ExportedResult, ExportedTensor, Program, program_of

CACHED_MIB = 1024
"""The cache of constants in a program that checks: its later calls are others then."""

_TYPES = ("f32", "f16", "bf16", "f8_e5m2", "f8_e4m3", "s64", "s32", "s8", "u8", "s4", "u4")
_CPP_TYPES: Mapping[AttributeType, str] = {
    "s64": "int64_t",
    "f32": "float",
    "bool": "bool",
    "string": "std::string",
    "s64[]": "std::vector<int64_t>",
    "f32[]": "std::vector<float>",
}


def _string(text: str) -> str:
    # JSON's escapes are C++'s too, but for those of letters beyond ASCII, which C++ reads as UTF-8.
    # What is no letter could turn the order of the text around where it is shown.
    return re.sub(
        r"[^\x20-\x7e]",
        lambda c: c[0] if c[0].isprintable() else f"\\U{ord(c[0]):08x}",
        json.dumps(text, ensure_ascii=False),
    )


def _number(value: Any) -> str:
    if isinstance(value, float) and value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


def _attribute(type: AttributeType, value: AttributeValue) -> str:
    if type == "bool":
        return "true" if value else "false"
    if type == "string":
        return _string(str(value))
    if type == "s64":
        return f"{value}"
    if type == "f32":
        return f"static_cast<float>({_number(float(value))})"  # type: ignore[arg-type]
    entries = value if isinstance(value, tuple) else ()
    shown = (_attribute("f32" if type == "f32[]" else "s64", v) for v in entries)
    return "{" + ", ".join(shown) + "}"


def _list(values: Any) -> str:
    return "{" + ", ".join(str(v) for v in values) + "}"


def _tensor(t: ExportedTensor) -> str:
    strides = t.strides if t.strides is not None else row_major(t.shape)
    constant = "true" if t.constant else "false"
    return (
        f'        {{{t.number}, "{t.name}", {t.dtype}, {_list(t.shape)}, {_list(strides)}, '
        f"{constant}}},"
    )


def _given(t: ExportedTensor, seed: int) -> str:
    if t.data is not None:
        return (
            f"    static const unsigned char {t.name}_values[] = "
            f"{_list(t.data.tobytes()) if t.data.nbytes else '{0}'};\n"
            f"    copy(tensors[{t.number}], {t.name}_values, {t.data.nbytes});"
        )
    assert t.fill is not None
    kind = t.fill.kind.replace(" ", "_")
    comment = f"  // {t.comment}" if t.comment else ""
    return (
        f"    fill(tensors[{t.number}], {kind}, {_number(t.fill.low)}, {_number(t.fill.high)}, "
        f"{seed});{comment}"
    )


def _doubles(array: npt.NDArray[Any]) -> str:
    """Return numbers of a tensor, of which 9 digits tell all apart."""
    numbers = (float(x) for x in array.reshape(-1).tolist())
    return _list(f"{x:.9g}" if math.isfinite(x) else _number(x) for x in numbers)


def _check(name: str, number: int, result: ExportedResult) -> str:
    """Return the comparison of an output."""
    allowed = result.allowed.reshape(-1)
    one_for_all = bool((allowed == allowed[:1]).all())
    return f"""\
    static const double expected_{number}[] = {_doubles(result.values)};
    static const double allowed_{number}[] = {_doubles(allowed[:1] if one_for_all else allowed)};
    right &= check({_string(name)}, tensors[{number}], expected_{number}, allowed_{number},
            {"true" if one_for_all else "false"});
"""


def _op(o: ExportedOp) -> str:
    variable = f"op{o.number}"
    lines = [
        f"    op {variable}({o.number}, op::kind::{o.kind}, {_string(o.name)});",
        *(
            f"    {variable}.set_attr<{_CPP_TYPES[type]}>(op::attr::{name}, "
            f"{_attribute(type, value)});"
            for name, type, value in o.attrs
        ),
        f"    {variable}.add_inputs({{{', '.join(f'lt[{i}]' for i in o.inputs)}}});",
    ]
    if o.outputs:
        outputs = ", ".join(f"lt[{i}]" for i in o.outputs)
        lines.append(f"    {variable}.add_outputs({{{outputs}}});")
    lines.append(f"    g.add_op({variable});")
    return "\n".join(lines)


def _text(program: Program) -> str:
    used = {t.dtype for t in program.tensors}
    # Only programs that use a type name it, since older headers lack some types.
    names = (t if t in used or t != "s64" else "undef" for t in (*_TYPES, "boolean"))
    types = ", ".join(f"logical_tensor::data_type::{name}" for name in names)
    flags = "true" if program.apply_to_int else "false"
    outputs = "\n".join(
        f"    print({_string(name)}, tensors[{number}]);" for name, number in program.outputs
    )
    checks = "".join(
        _check(n, i, program.expected[i]) for n, i in program.outputs if i in program.expected
    )
    if checks:
        checks = f"    bool right = true;\n{checks}    return right ? 0 : 4;"
    cache = f"    set_constant_tensor_cache_capacity(where, {CACHED_MIB});\n" if checks else ""
    wrong = " 4 if a number is wrong," if checks else ""
    checked = bool(program.expected)
    parts = ["guarded_memory.hpp" if checked else "memory.hpp", "runtime.hpp"]
    parts += ["check.hpp"] * checked
    # What is printed before a crash is seen.
    lines = "    std::setvbuf(stdout, nullptr, _IOLBF, 0);\n" if checked else ""
    pages = "\n#include <sys/mman.h>\n" if checked else ""
    runtime = "".join((files(__package__) / p).read_text(encoding="utf-8") for p in parts)
    return f"""\
// A oneDNN graph, exported by onednn_graph_py: {len(program.ops)} ops.
//
//     c++ -std=c++17 -O2 FILE.cpp -o program -ldnnl
//
// with -I and -L (and -Wl,-rpath,) for a oneDNN that is not installed in the system's folders. It
// fills its inputs, runs all partitions and prints a line for each output. The exit status is 0, 1
// if oneDNN fails,{wrong} and 3 if it does not support the graph.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>
{pages}
#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;

namespace {{

const logical_tensor::data_type dnnl_types[] = {{{types}}};

{runtime}
}}  // namespace

int main() try {{
    const engine::kind where = engine::kind::{program.engine_kind};
{lines}{cache}
    // id, name, data type, dims, strides, whether it is constant
    std::vector<tensor_data> tensors = {{
{chr(10).join(_tensor(t) for t in program.tensors)}
    }};
    std::vector<logical_tensor> lt;
    for (const auto &t : tensors) lt.push_back(t.described());

    graph g(where);
    g.set_fpmath_mode(static_cast<dnnl::fpmath_mode>(
            dnnl_fpmath_mode_{program.fpmath_mode}), {flags});
{chr(10).join(_op(o) for o in program.ops)}
    g.finalize();

{chr(10).join(_given(t, program.seed) for t in program.given)}

    if (!run(g, tensors, where, {2 if checks else 1})) return 3;
{outputs}
{checks or "    return 0;"}
}} catch (const dnnl::error &e) {{
    std::fprintf(stderr, "oneDNN: %s\\n", e.what());
    return 1;
}}
"""


def to_cpp(
    builder: GraphBuilder,
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    check: bool = False,
) -> str:
    """Write a graph as a complete C++17 program.

    It needs only ``oneapi/dnnl/dnnl_graph.hpp`` and the library; its first lines say how to build
    it. It fills inputs as `fill_inputs` does. Constants of up to 64 KiB are written out; larger
    ones are filled like inputs.

    Parameters
    ----------
    builder : GraphBuilder
    seed : int
        Seed for generated inputs.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs with unknown dims, by name.
    check : bool
        Whether the program also holds what the outputs should be by the reference in NumPy, and
        compares: then its exit status is 4 if a number is wrong. Its tensors lie between pages that
        can't be read, so it also crashes where oneDNN leaves them; it needs a POSIX system.

    Raises
    ------
    InvalidGraphError
        The graph has no output that an op makes; or the program is to check, and a constant is too
        large to be written out.
    InvalidShapeError
        Dims of an input are unknown.
    """
    return _text(program_of(builder, seed=seed, shapes=shapes, check=check))

"""onnx's own cases of nodes and models, and what becomes of each; as a program it writes a page.

``python onnx_cases.py PAGE`` writes which ops run in oneDNN into a page of the documentation.
"""

import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests
from onnx.reference import ReferenceEvaluator

from onednn_graph_py.onnx import backend
from onednn_graph_py.onnx.host_steps import HOSTED
from onednn_graph_py.onnx.lowering import LOWERINGS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "onnx_ops.md"

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of one rounding."""

RANDOM = {"Bernoulli", "RandomUniformLike", "RandomNormalLike", "RandomUniform", "RandomNormal"}
"""Ops whose results differ from call to call."""


@dataclass(frozen=True)
class Case:
    """A model with inputs and the outputs that onnx expects of them."""

    name: str
    model: onnx.ModelProto
    sets: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float


@dataclass
class Outcome:
    """What ran where, and what was wrong.

    Parameters
    ----------
    ops : set of str
        The kinds of oneDNN's ops that ran.
    reasons : dict of str to set of str
        Why ops did not run in oneDNN.
    wrong : str
        What differs from what onnx expects; empty if nothing does.
    is_general : bool
        Whether the model was compiled for all shapes.
    """

    ops: set[str] = field(default_factory=set)
    reasons: dict[str, set[str]] = field(default_factory=dict)
    wrong: str = ""
    is_general: bool = False


def _array(given: Any) -> Any:
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, (list, tuple)):
        return [_array(g) for g in given]
    return given


@cache
def node_cases() -> dict[str, Case]:
    """Return onnx's cases of single nodes, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        found = collect_testcases(None)
    return {
        c.name: Case(
            c.name,
            c.model,
            tuple((_array(inputs), _array(outputs)) for inputs, outputs in c.data_sets),
            c.rtol,
            c.atol,
        )
        for c in found
    }


@cache
def model_cases() -> dict[str, Case]:
    """Return onnx's cases of small models in files, by name."""
    made = {}
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for found in load_model_tests(DATA_DIR, kind):
            folder = Path(found.model_dir)
            model = onnx.load(folder / "model.onnx")
            given, made_of = (
                [v.type for v in vs] for vs in (model.graph.input, model.graph.output)
            )
            sets = tuple(
                (_stored(data, "input", given), _stored(data, "output", made_of))
                for data in sorted(folder.glob("test_data_set_*"))
            )
            made[found.name] = Case(found.name, model, sets, found.rtol, found.atol)
    return made


def _stored(folder: Path, what: str, types: list[Any]) -> list[Any]:
    """Return the arrays of a folder."""
    made = []
    for i, of in zip(range(len(list(folder.glob(f"{what}_*.pb")))), types, strict=False):
        data = (folder / f"{what}_{i}.pb").read_bytes()
        if of.WhichOneof("value") == "sequence_type":
            made.append(numpy_helper.to_list(onnx.SequenceProto.FromString(data)))
        else:
            made.append(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
    return made


# -- variants


_WITH_WEIGHTS = (
    "Conv",
    "DequantizeLinear",
    "Gather",
    "Gemm",
    "GroupNormalization",
    "Pow",
    "QuantizeLinear",
)
"""Ops of which models have all inputs but the first as constants."""


def fixed(case: Case) -> Case | None:
    """Make weights of inputs that models have as constants, such as axes; None without any."""
    if len(case.model.graph.node) != 1 or len(case.sets) != 1:
        return None
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    (inputs, outputs), graph = case.sets[0], model.graph
    node = graph.node[0]
    kept, rest = [], []
    for i, (info, array) in enumerate(zip(list(graph.input), inputs, strict=True)):
        parameter = isinstance(array, (np.ndarray, np.generic)) and (
            array.ndim == 0
            or (array.dtype.kind in "iub" and array.ndim == 1)
            or info.name in ("roi", "scales")
            or node.op_type in _WITH_WEIGHTS
        )
        if i and parameter and array.dtype != object:
            graph.initializer.append(numpy_helper.from_array(np.asarray(array), info.name))
        else:
            kept.append(info)
            rest.append(array)
    if len(rest) == len(inputs):
        return None
    del graph.input[:]
    graph.input.extend(kept)
    return replace(case, model=model, sets=((rest, outputs),))


def opened(case: Case) -> Case | None:
    """Leave the first dim of each input open, and so those of the outputs; None for no node."""
    if len(case.model.graph.node) != 1:
        return None
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    sizes = {}
    for info in model.graph.input:
        if not info.type.HasField("tensor_type") or not info.type.tensor_type.shape.dim:
            continue
        dim = info.type.tensor_type.shape.dim[0]
        sizes.setdefault(dim.dim_value, f"n{dim.dim_value}")
        name = sizes[dim.dim_value]
        dim.Clear()
        dim.dim_param = name
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return replace(case, model=model) if sizes else None


# -- running


def outcome(case: Case, **options: Any) -> Outcome:
    """Run a case, and compare its outputs with those that onnx expects."""
    prepared = backend.prepare(case.model, **options)
    made = Outcome()
    for inputs, wanted in case.sets:
        results = prepared.run(list(inputs))
        random = any(n.op_type in RANDOM for n in _nodes(case.model)) or _trains(case)
        made.wrong = made.wrong or difference(results, wanted, case.rtol, case.atol, random)
    if made.wrong and _is_of_reference(case):
        made.wrong = ""
    for program in prepared.model.report().programs:
        made.is_general = made.is_general or program.is_general
        for step in program.steps:
            if step.implementation == "oneDNN":
                made.ops.update(step.ops)
        for left in program.left:
            made.reasons.setdefault(left.op, set()).add(left.why)
    return made


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from model.graph.node
    for function in model.functions:
        yield from function.node


def _trains(case: Case) -> bool:
    return case.name.startswith("test_training_dropout")


def _in_reference(case: Case) -> Iterator[tuple[Any, Any]]:
    """Yield what onnx's reference gives, and what onnx expects."""
    evaluator = ReferenceEvaluator(case.model)
    names = [v.name for v in case.model.graph.input]
    for inputs, wanted in case.sets:
        yield evaluator.run(None, dict(zip(names, inputs, strict=True))), wanted


def runs_in_reference(case: Case) -> bool:
    """Return whether onnx's reference can run a case."""
    try:
        return bool(list(_in_reference(case)))
    except Exception:  # whatever NumPy raises
        return False


def _is_of_reference(case: Case) -> bool:
    """Return whether onnx's reference differs from what onnx expects, too."""
    try:
        pairs = list(_in_reference(case))
    except Exception:  # whatever NumPy raises
        return False
    return any(difference(r, w, case.rtol, case.atol, False) for r, w in pairs)


def difference(results: Any, wanted: Any, rtol: float, atol: float, random: bool) -> str:
    """Say how outputs differ; empty if they don't."""
    if wanted is None:
        return "" if results is None else "it is there"
    if isinstance(wanted, (list, tuple)):
        if not isinstance(results, (list, tuple)) or len(results) != len(wanted):
            return f"{results} instead of {wanted}"
        pairs = zip(results, wanted, strict=True)
        return next((d for r, w in pairs if (d := difference(r, w, rtol, atol, random))), "")
    result, right = np.asarray(results), np.asarray(wanted)
    if right.dtype.kind in "OUS":
        same = result.shape == right.shape and result.tolist() == right.tolist()
        return "" if same else f"{result} instead of {right}"
    if (result.dtype, result.shape) != (right.dtype, right.shape):
        return f"{result.dtype} {result.shape} instead of {right.dtype} {right.shape}"
    if random or right.size == 0:
        return ""
    if right.dtype.kind != "f" and right.dtype.name not in UNIT:
        return "" if np.array_equal(result, right) else f"{result} instead of {right}"
    unit = UNIT.get(right.dtype.name, 2.0**-24)
    result, right = result.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(right)
    if not np.array_equal(result[~finite], right[~finite], equal_nan=True):
        return f"{result[~finite][:5]} instead of {right[~finite][:5]}"
    # Sums are as long as these tensors at most, and their errors are those of the largest terms.
    largest = np.abs(right[finite]).max(initial=0.0)
    off = np.abs(result[finite] - right[finite])
    bad = ~(off <= max(rtol, 4 * unit) * np.abs(right[finite]) + max(atol, 16 * unit * largest))
    if not bad.any():
        return ""
    return f"{result[finite][bad][:5]} instead of {right[finite][bad][:5]}"


# -- the page


def _float_types(schema: onnx.defs.OpSchema) -> bool:
    """Return whether an op takes floating-point tensors that oneDNN has."""
    types = {t for c in schema.type_constraints for t in c.allowed_type_strs}
    types |= {t for port in schema.inputs for t in port.types}
    return bool(types & {"tensor(float)", "tensor(bfloat16)"})


def why_island(schema: onnx.defs.OpSchema) -> str:
    """Say why an op has no lowering."""
    types = {t for p in (*schema.inputs, *schema.outputs) for t in p.types}
    if schema.name in ("Constant", "ConstantOfShape", "Range", "Shape", "Size"):
        return "it is computed when a model is compiled, if sizes are all that it needs"
    if schema.deprecated:
        return "deprecated"
    if any(a.type == onnx.defs.OpSchema.AttrType.GRAPH for a in schema.attributes.values()):
        return "it runs a subgraph"
    if types and all(t.startswith(("seq", "optional", "map")) or "string" in t for t in types):
        return "it has sequences or strings"
    if schema.name.startswith("Random") or schema.name in RANDOM:
        return "it is random"
    if schema.domain == "ai.onnx.ml":
        return "no op of oneDNN Graph: classical machine learning"
    if not _float_types(schema):
        return "it has whole numbers or booleans only"
    return "no op of oneDNN Graph"


@cache
def rows() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return for each op of ONNX what runs it, and when or why it stays in an island."""
    ops: dict[str, set[str]] = {}
    reasons: dict[str, set[str]] = {}
    for case in node_cases().values():
        if len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        if node.domain or (node.domain, node.op_type) not in LOWERINGS:
            continue
        if not all(v.type.HasField("tensor_type") for v in case.model.graph.input):
            continue
        made = outcome(fixed(case) or case, fallback="reference")
        ops.setdefault(node.op_type, set()).update(made.ops)
        reasons.setdefault(node.op_type, set()).update(made.reasons.get(node.op_type, ()))
    made_rows = {}
    for schema in sorted(onnx.defs.get_all_schemas(), key=lambda s: (s.domain, s.name)):
        key = schema.domain, schema.name
        if key in LOWERINGS:
            known = sorted({r for r in map(_told, reasons.get(schema.name, ())) if r})
            runs = sorted(ops.get(schema.name, ()))
            runs = runs or ["a host step" if schema.name in HOSTED else "a view"]
            made_rows[key] = (", ".join(runs), "; ".join(known))
        elif not schema.domain.startswith("ai.onnx.preview"):
            made_rows[key] = ("", why_island(schema))
    return made_rows


def _told(reason: str) -> str:
    """Return a reason for the page; empty for what is the same for all ops."""
    if reason.startswith(("oneDNN computes it in floating", "oneDNN uses", "its dims depend")):
        return ""
    if "no elements" in reason or "oneDNN does not convert" in reason:
        return ""
    if reason.startswith(("a data type", "onnx does not", "oneDNN refuses it: there is no data")):
        return ""
    if reason.startswith("oneDNN has no coordinates"):
        return "it crops, or aligns corners of a size that a factor does not make"
    return re.sub(", not [a-z0-9_]+$", "", reason)


HEAD = """\
# Ops of ONNX

This table shows which ops of ONNX [`onednn_graph_py.onnx`](guide_onnx.md) gives to oneDNN, and
which stay in islands: nodes that onnxruntime or onnx's reference runs. It comes from onnx's own
cases, all of which the tests run.

For all ops: oneDNN computes in f32, bf16 and f16; the latter two are computed in f32 where the CPU
lacks them. Islands run whole numbers, booleans, f64, tensors without elements, and nodes whose dims
depend on the numbers of a call. Values known at compile time (sizes, axes, masks of sizes) are
folded, whatever the op. A view takes no time, unless its reader needs a copy. A host step is a
function of NumPy's between oneDNN's partitions, on whole numbers and booleans, too; so are `Cast`,
`Where`, `Gather` and `Pad` of what oneDNN does not take.

Ops that compare may turn NaN into a number: Relu, Clip, HardSigmoid, Exp, Max, Min, ReduceMax,
ReduceMin and MaxPool. In Softmax and LogSoftmax NaN stays NaN, but does not spread to its row.
Infinities give what ONNX says, with four exceptions: Gelu gives NaN, a window of MaxPool that has
only -inf gives the smallest finite number, PRelu differs with infinite slopes, and Resize as
MatMul makes its row NaN. NaN is the largest and the smallest number of ArgMax and ArgMin.

Before oneDNN 3.9 Gelu by tanh runs as other ops, and so does RMSNormalization before 3.11. Before
3.8 Where needs known dims, unless the condition has the shape of what it chooses.

| op | oneDNN's ops | stays in an island if, or because |
| --- | --- | --- |
"""


def page() -> str:
    """Return the page of the documentation."""
    lines = [
        f"| {f'{domain}.' if domain else ''}{name} | {ops or '-'} | {why} |"
        for (domain, name), (ops, why) in rows().items()
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page())

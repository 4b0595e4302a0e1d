"""``python -m onednn_graph_py onnx`` and ``tune``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import InvalidArgumentsError, InvalidGraphError, OneDNNError, UnimplementedError
from ...base.text.files import error_text
from ...base.text.names import install_line, printable
from ...base.text.numbers import bytes_text, seconds_text
from ...base.text.options import add_command, add_forms, add_seconds, add_seed, at_least
from ...model.building.builder import GraphBuilder
from ...model.building.foreign import ForeignNode
from ...model.building.value import Node, Value
from ...model.rewriting.rebuild import Copy, Edit, Writer, rebuild
from ...ops.terms import shape_text
from ...serialization import load as load_graph
from ...tools import tuning
from ..options import RTOL, RTOL_INT8

if TYPE_CHECKING:
    from ...model.checking.expected import Verification
    from ..model import OnnxModel
    from ..programs import Entry
    from ..tensors import Shape
    from .timing import Times

SLOWEST = 8  # steps that the table of --time has

_MORE = """\
Dims that the model leaves open get their sizes by --set; for others a size is chosen and shown.
Exit status: 0; 1 if a result is wrong or a call fails; 2 if the file or an option is at fault.
"""


def _transposed(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return (copy.add("StaticTranspose", inputs, {"order": list(node.attrs["order"])}),)


def _reshaped(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    shape = list(node.outputs[0].shape or ())
    return (copy.add("StaticReshape", inputs, {"shape": shape, "special_zero": False}),)


_WRITERS: Mapping[str, Writer] = {"Transpose": _transposed, "Squeeze": _reshaped}
"""oneDNN's ops for views; there are none for the others."""


def plain(builder: GraphBuilder) -> GraphBuilder:
    """Return a graph without host steps and views.

    What they make is an input of the graph, and what they read is an output. Views that oneDNN has
    an op for become that op.
    """
    nodes: Sequence[Node] = builder.nodes
    kept = [i for i, n in enumerate(nodes) if not isinstance(n, ForeignNode) or n.kind in _WRITERS]
    if all(isinstance(nodes[i], ForeignNode) for i in kept):
        raise InvalidGraphError(
            "oneDNN computes no part of the graph, so there is nothing to write"
        )
    writers = {i: _WRITERS[nodes[i].kind] for i in kept if isinstance(nodes[i], ForeignNode)}
    return rebuild(builder, Edit(nodes=writers), only=frozenset(kept)).builder


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    names = "fallback", "requantize", "dynamic_quantization", "threads"
    return {name: given for name in names if (given := getattr(arguments, name)) is not None}


def require_packages() -> None:
    """Raise, with the way to install it, if a package that ONNX models need is missing."""
    missing = [n for n in ("onnx", "onnx_ir") if importlib.util.find_spec(n) is None]
    if missing:
        raise UnimplementedError(f"not installed: {', '.join(missing)}; {install_line('onnx')}")


def _onnx(arguments: argparse.Namespace) -> int:
    require_packages()
    from ..file_model import load
    from ..model import entry_of
    from .sizes import chosen_shapes, parsed
    from .timing import time_model

    arrays = _arrays(arguments.inputs) if arguments.inputs else {}
    sizes = {**{n: a.shape for n, a in arrays.items()}, **parsed(arguments.set)}
    if os.path.isdir(arguments.file):
        raise InvalidArgumentsError(f"{arguments.file} is a folder; expected an ONNX file")
    model = load(arguments.file, **_options(arguments))
    shapes, guessed = chosen_shapes(model.input_dims, sizes)
    model.compile(shapes)
    entry = entry_of(model, shapes)
    inputs: dict[str, Any] = {}
    if arguments.verify or arguments.time or arguments.outputs:
        inputs = model.random_inputs(shapes, arguments.seed)
    inputs |= {n: a for n, a in arrays.items() if n in inputs}
    inputs |= _given(arguments.value, shapes, inputs)
    found: Verification | None = None
    times: Times | None = None
    between: dict[str, dict[str, Any]] = {}
    try:
        if arguments.verify:
            found = model.verify(inputs, rtol=arguments.rtol, atol=arguments.atol)
        if arguments.time:
            times = time_model(model, entry, inputs, arguments.file, arguments.seconds)
        if arguments.outputs:
            names = [n for words in arguments.outputs for n in words.split(",")]
            results = model.run(inputs, outputs=names)
            between = dict(zip(names, map(_described, results), strict=True))
    except OneDNNError as e:
        chosen = arrays or arguments.value or arguments.outputs
        if chosen and isinstance(e, InvalidArgumentsError):
            raise
        print(printable(f"onnx: a call fails: {error_text(e)}"), file=sys.stderr)
        return 1
    section = entry.program.section
    head = {
        "name": os.path.basename(arguments.file),
        "opset": section.opsets.get("", 0),
        "inputs": {n: {"dtype": model.input_dtypes[n], "shape": s} for n, s in shapes.items()},
        "guessed": guessed,
        "weights_bytes": sum(a.nbytes for a in section.known.values()),
    }
    made = model.report().programs[-1]
    if arguments.form == "json":
        more = {**made.to_dict(), **_details(found, times), "outputs": between}
        print(json.dumps({**head, **more}, indent=2))
    else:
        print(_head_text(head), made, sep="\n")
        if times is not None:
            print("", *_step_lines(entry, times), _times_text(times), sep="\n")
        if found is not None:
            print(f"\n{found}")
        for name, of in between.items():
            print(printable(f"\n{name}: {', '.join(f'{k} {v}' for k, v in of.items())}"))
    if arguments.graph is not None:
        _write(model, shapes, arguments.graph)
    return 1 if found is not None and not found.ok else 0


def _arrays(path: str) -> dict[str, Any]:
    """Return the arrays of a file that ``numpy.savez`` wrote."""
    import numpy as np

    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as e:
        raise InvalidArgumentsError(f"--inputs {path}: no file of numpy.savez: {e}") from None


def _described(result: Any) -> dict[str, Any]:
    """Say what a result is: an array, or a sequence."""
    if not hasattr(result, "dtype"):
        return {"kind": type(result).__name__}
    made = {"dtype": str(result.dtype), "shape": shape_text(result.shape)}
    if result.size and result.dtype.kind in "biuf":
        made |= {"smallest": f"{result.min():.6g}", "largest": f"{result.max():.6g}"}
    return made


def _given(
    words: list[str], shapes: Mapping[str, Shape], random: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the inputs that ``--value`` gives: a number for all elements, or a file of NumPy's."""
    import numpy as np

    made: dict[str, Any] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in shapes or not text:
            raise InvalidArgumentsError(
                f"--value {word}: expected NAME=NUMBER or NAME=FILE.npy; the inputs are "
                f"{', '.join(shapes)}"
            )
        try:
            value = np.load(text, allow_pickle=False) if text.endswith(".npy") else float(text)
        except ValueError as e:
            raise InvalidArgumentsError(f"--value {word}: {e}") from None
        if name in random:
            made[name] = np.broadcast_to(value, shapes[name]).astype(random[name].dtype)
    return made


def _head_text(head: Mapping[str, Any]) -> str:
    """Return what the file has, and the sizes for which the report is."""
    told = (f"{n}: {of['dtype']} {shape_text(of['shape'])}" for n, of in head["inputs"].items())
    weights = bytes_text(head["weights_bytes"])
    lines = [
        f"{head['name']}: opset {head['opset']}, {weights} of weights",
        f"  {', '.join(told) or 'no inputs'}",
    ]
    if head["guessed"]:
        sizes = ", ".join(f"{n}={size}" for n, size in head["guessed"].items())
        lines.append(f"  open dims, without a size from --set: {sizes}")
    return printable("\n".join(lines))


def _step_lines(entry: Entry, times: Times) -> list[str]:
    """Return the times of the partitions by kind, and of all islands together."""
    from ...frontends.report import partitions_text
    from ..report import steps_of

    if not times.steps:
        return []
    steps = steps_of(entry)
    outside = sum(t for s, t in zip(steps, times.steps, strict=True) if s.implementation == "host")
    islands = [f"    islands: {1e3 * outside:.3f} ms"] if outside else []
    pairs = zip(steps, times.steps, strict=True)
    labels = [(s.names[0] if s.implementation == "host" else "+".join(s.ops), t) for s, t in pairs]
    slowest = sorted(labels, key=lambda step: -step[1])[:SLOWEST]
    table = [f"    {'slowest steps':44}  onnxruntime's nodes"]
    for pair in zip_longest(slowest, times.nodes[:SLOWEST], fillvalue=("", 0.0)):
        cells = [f"{1e3 * t:9.3f} ms {label}" if label else "" for label, t in pair]
        table.append(printable(f"    {cells[0][:44]:44}  {cells[1][:60]}".rstrip()))
    return [*partitions_text(steps, times.steps), *islands, *table]


def _details(found: Verification | None, times: Times | None) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if found is not None:
        made["verified"] = {
            "ok": found.ok,
            "reference": found.reference,
            "outputs": [
                {"name": o.name, "error": str(o.max_error), "allowed": o.allowed, "ok": o.ok}
                for o in found.outputs
            ],
        }
    if times is not None:
        made["times"] = {
            "threads": times.threads,
            "steps": times.steps,
            "seconds": times.ours,
            "onnxruntime": times.theirs,
            "onnxruntime_version": times.version,
            "onnxruntime_nodes": times.nodes,
            "onnxruntime_failure": times.failure,
        }
    return made


def _times_text(times: Times) -> str:
    ours = f"a call takes {seconds_text(times.ours)} with {times.threads} threads"
    if times.theirs is None:
        return printable(f"{ours}; onnxruntime: {times.failure}")
    ratio = times.ours / times.theirs
    return (
        f"{ours}, {ratio:.2f} times what onnxruntime {times.version} takes "
        f"({seconds_text(times.theirs)})"
    )


def _write(model: OnnxModel, shapes: Mapping[str, Shape], path: str) -> None:
    from ...serialization import save

    graph = plain(model.builder(shapes))
    save(graph, path)
    print(
        f"{path}: {len(graph.nodes)} ops of oneDNN, without the weights' numbers", file=sys.stderr
    )


def add_onnx(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "onnx",
        "show what oneDNN runs of an ONNX model",
        "Show which nodes of a model run in oneDNN (regions), and which do not (islands), and why.",
        "model.onnx --set batch=1 --verify",
        more=_MORE,
    )
    parser.add_argument("file", help="an ONNX model")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="sizes of open dims, such as batch=1,sequence=128, or of a dim without a name, such "
        "as x[2]=64; or the shape of an input, such as image=1x3x224x224",
    )
    parser.add_argument(
        "--inputs",
        metavar="FILE.npz",
        help="inputs by name, as numpy.savez writes them, for --verify and --time; they give sizes",
    )
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="numbers of an input for --verify and --time, in place of random ones: a number for "
        "all elements, or a file of NumPy's, such as sr=16000 or image=cat.npy",
    )
    parser.add_argument(
        "--outputs",
        action="append",
        default=[],
        metavar="NAMES",
        help="describe results of nodes, also those between nodes, by name or as NODE:0",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="call the model with random inputs, and compare with onnxruntime, or with onnx's "
        "reference if that is not installed",
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="time calls and their steps, and onnxruntime where it is installed",
    )
    add_forms(parser, json="print JSON")
    parser.add_argument(
        *("--graph", "--to"),
        metavar="FILE",
        help="write the regions as a graph of oneDNN into a JSON file, for benchdnn and for the "
        "commands explain, replay and export",
    )
    parser.add_argument(
        "--fallback",
        choices=["auto", "onnxruntime", "reference", "error"],
        help="what runs the islands (default: auto)",
    )
    parser.add_argument(
        "--requantize",
        choices=["merge", "exact"],
        help="whether roundings between a convolution and a sum are merged (default: merge)",
    )
    parser.add_argument(
        "--dynamic-quantization",
        choices=["f32", "host"],
        help="how dynamically quantized products are computed (default: f32)",
    )
    parser.add_argument("--threads", type=at_least(1), help="threads per call")
    add_seconds(parser, 1.0, "time for which to time each runtime")
    parser.add_argument(
        "--rtol",
        type=float,
        help="what --verify allows, relative to an output's largest number "
        f"(default: {RTOL:g}, and {RTOL_INT8:g} if anything is computed in 8 bits)",
    )
    parser.add_argument(
        "--atol", type=float, default=1e-5, help="and absolute (default: %(default)g)"
    )
    add_seed(parser)
    parser.set_defaults(run=_onnx)


# -- tune


def _tune(arguments: argparse.Namespace) -> int:
    if arguments.file.endswith(".onnx"):
        require_packages()
        from ..file_model import load as load_onnx
        from .sizes import chosen_shapes, parsed

        model = load_onnx(arguments.file, threads=arguments.threads, tune="full")
        sizes = parsed(arguments.set)
        model.compile(chosen_shapes(model.input_dims, sizes)[0])
    elif arguments.set:
        raise InvalidArgumentsError("--set: only an ONNX model has open dims to set")
    else:
        loaded = load_graph(Path(arguments.file))
        getattr(loaded, "builder", loaded).compile(threads=arguments.threads, tune="full")
    if arguments.form == "json":
        print(json.dumps([m._asdict() for m in tuning.measurements()], indent=2))
    else:
        print(tuning.show())
    return 0


def add_tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to those of a parser."""
    parser = add_command(
        commands,
        "tune",
        "find the fastest form of each group of a model, and keep it",
        "Time each group of a model in all forms that fit it, however long that takes, and print "
        "all times of this machine. Models compiled later use them.",
        "model.onnx --set batch=1",
        more="Exit status: 0; 2 if the file or an option can't be read.",
    )
    parser.add_argument("file", help="an ONNX model, or a graph's JSON file")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="sizes of an ONNX model's open dims, such as batch=1",
    )
    parser.add_argument("--threads", type=at_least(1), help="threads per call")
    add_forms(parser, json="print JSON")
    parser.set_defaults(run=_tune)

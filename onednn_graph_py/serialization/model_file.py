"""Files of compiled models: the graph, its constants, options, sizes, and what was measured.

A file has a first line, a header in JSON, and the constants, which `load_model` maps: processes
that load one file share their memory. Nothing in a file is run: `load_model` builds the graph
again, and each op is checked as if it were new.
"""

from __future__ import annotations

import json
import os
import warnings
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..base.dtypes import HOST_DTYPES
from ..base.errors import GraphFormatError, InvalidGraphError
from ..base.text.files import error_text, open_limited, write_whole
from ..machine.store import facts
from ..model.building.array_functions import TABLE
from ..model.building.builder import GraphBuilder
from ..model.building.constant_arrays import mapped, unpacked
from ..model.building.foreign import CallNode, HostNode, ViewNode
from ..model.building.host_functions import HostFunction, is_ufunc
from ..model.building.sizes import FUNCTIONS, Extent, Size, Slot
from ..model.building.value import Node, Value
from ..model.planning.pace import Paces, paces_of, remember, rows_of
from ..model.running.model import CompiledGraph, restored
from ..model.running.releasing import require_plain
from ..reference.rounding import NUMPY_DTYPES
from .read import FIRST_LINE
from .write import save as save_graph

_LARGEST_HEADER = 1 << 28
_ALIGNMENT = 64  # of each constant, as builders need it to use arrays where they lie
_PACKED = ("s4", "u4")
_PACKAGE = __name__.partition(".")[0]
_STEPS = "onnx.host_steps"  # besides those of blocks, the functions that files name
_PLAIN = {"arange", "astype", "broadcast_arrays", "copy", "getitem", "reshape"}
_FUNCTIONS = _PLAIN | {row.name for row in TABLE.values()}  # and all ufuncs


def save(model: CompiledGraph, path: str | os.PathLike[str]) -> None:
    """Write the model into a file, which `load` compiles again.

    The file has the graph with its constants, the options, the sizes for which the model is
    compiled, and what was measured of its groups. Another process that loads it gets the same
    plan on a CPU of the same kind.

    Parameters
    ----------
    path : path-like
        A name that ends in ``.json`` has the graph alone, without constants, as
        `GraphBuilder.save` writes it.

    Raises
    ------
    InvalidGraphError
        The model has a Python function that is none of NumPy's, of `blocks` or of exported modules.
    InvalidArgumentsError
        The model released its constants (`release_constants`).
    OSError
        The file can't be written; what was there before stays.
    """
    builder, options, device, measured = model.state
    require_plain(builder.constants, f"{model.name}.save")
    if os.fspath(path).endswith(".json"):
        save_graph(builder, path)
        return
    header = {
        "graph": described(builder),
        "options": options,
        "device": device,
        "sizes": [list(map(list, shapes)) for shapes in model.sizes],
    }
    write(path, header, [v.data for v in builder.constants], measured)


def write(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: Iterable[npt.NDArray[Any] | None],
    measured: Paces,
) -> None:
    """Write the file of a model; if that fails, what was there before stays.

    The header's "graph" has the "constants": shape, data type and name of each of the arrays.
    """
    constants = [np.ascontiguousarray(a).reshape(-1).view(np.uint8).data for a in arrays]
    header |= {
        "constants": [[c.nbytes, zlib.crc32(c)] for c in constants],
        "facts": facts(),
        "measured": rows_of(measured),
    }
    text = json.dumps(header).encode()
    length = b"%d %d\n" % (len(text), zlib.crc32(text))
    write_whole(path, _parts(FIRST_LINE + length + text + b"\n", constants))


def _parts(head: bytes, constants: Sequence[memoryview]) -> Iterator[bytes | memoryview]:
    yield head
    at = len(head)
    for constant in constants:
        yield b"\0" * (-at % _ALIGNMENT)
        yield constant
        at += -at % _ALIGNMENT + constant.nbytes


# -- the graph as JSON


def described(builder: GraphBuilder) -> dict[str, Any]:
    """Return a graph as JSON holds it, without the numbers of its constants."""
    c = builder.contents
    values = [*c.inputs, *c.constants.values(), *(v for n in c.nodes for v in n.outputs)]
    number = {v.id: i for i, v in enumerate(values)}
    return {
        "engine": builder.engine_kind.name,
        "fpmath": [builder.fpmath_mode.name, builder.apply_to_int],
        "inputs": [[v.shape, v.dtype, v.name, v.strides, v.updated] for v in c.inputs],
        "constants": [[v.shape, v.dtype, v.name] for v in c.constants.values()],
        "nodes": [
            [n.kind, n.name, n.where, [number[v.id] for v in n.inputs], *_particulars(n)]
            for n in c.nodes
        ],
        "outputs": {name: number[v.id] for name, v in c.outputs.items()},
        "conditions": encoded(c.conditions),
    }


def _particulars(node: Node) -> tuple[str, Any, Any]:
    """Return a node's class, its attributes or function, and its outputs."""
    outputs = [[v.shape, v.dtype] for v in node.outputs]
    if isinstance(node, ViewNode):
        return "view", encoded(dict(node.attrs)), outputs
    if not isinstance(node, HostNode):
        return "op", encoded(dict(node.attrs)), outputs
    call = node.function
    if isinstance(node, CallNode) and isinstance(call, HostFunction):
        record = [call.op, encoded(call.args), encoded(call.kwargs), call.read, call.results]
        return "call" if type(call) is HostFunction else "front end's call", record, ()
    if hasattr(call, "kept"):
        return "island", call.kept(), ()
    try:
        if isinstance(node, CallNode):
            return "block's call", [encoded(call), encoded(node.declared)], ()
        return "block's update", [encoded(call)], ()
    except InvalidGraphError as e:
        raise InvalidGraphError(
            f"host step {node.label} made at {node.where}: {e}; only functions of NumPy and of "
            "blocks are found by name"
        ) from None


def _name_of(function: Callable[..., Any]) -> str:
    name = next((name for name, f in FUNCTIONS.items() if f is function), None)
    if name is None:
        raise InvalidGraphError(f"a file of a model can't hold the function {function!r} of sizes")
    return name


def _holds_steps(module: str) -> bool:
    return module == _STEPS or (module.startswith("blocks.") and module[7:].isidentifier())


def _step_function(module: str, name: str, args: list[Any], options: dict[str, Any]) -> Any:
    function = None
    if _holds_steps(module) and name.isidentifier():
        function = getattr(import_module(f"{_PACKAGE}.{module}"), name, None)
    if not isinstance(function, FunctionType) or function.__module__ != f"{_PACKAGE}.{module}":
        raise ValueError(f"{module}.{name} is no function of a block")
    return partial(function, *args, **options)


_TAGS: dict[type, tuple[str, Any]] = {
    slice: ("slice", lambda v: [v.start, v.stop, v.step]),
    type(Ellipsis): ("ellipsis", lambda v: []),
    tuple: ("tuple", list),
    Slot: ("slot", lambda v: [v.index]),
    Extent: ("extent", lambda v: [v.index, v.dim]),
    Size: ("size", lambda v: [_name_of(v.function), *v.args]),
}


def _size(name: str, *parts: Any) -> Size:
    if name not in FUNCTIONS:
        raise ValueError(f"a size is computed by {name!r}")
    return Size(FUNCTIONS[name], parts)


_MAKERS: dict[str, Callable[..., Any]] = {
    "slice": slice,
    "ellipsis": lambda: Ellipsis,
    "tuple": lambda *parts: parts,
    "slot": Slot,
    "extent": Extent,
    "size": _size,
    "dtype": np.dtype,
    "function": _step_function,
}


def _encoded_function(value: Any) -> list[Any]:
    """Return a function by its name, with the arguments that it has already."""
    args, options = [], {}
    if isinstance(value, partial):
        value, args, options = value.func, list(value.args), value.keywords
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    module = module.removeprefix(f"{_PACKAGE}.")
    if not _holds_steps(module) or not name.isidentifier():
        raise InvalidGraphError(f"a file of a model can't hold the function {value!r}")
    return [module, name, encoded(args), encoded(options)]


def encoded(value: Any) -> Any:
    """Write an attribute or argument so that JSON holds it; `decoded` reads it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return encoded(value.tolist())
    if isinstance(value, list):
        return [encoded(v) for v in value]
    if isinstance(value, Mapping):
        return {"": [[k, encoded(v)] for k, v in value.items()]}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": [np.dtype(value).name]}
    if isinstance(value, (FunctionType, partial)):
        return {"function": _encoded_function(value)}
    if type(value) not in _TAGS:
        raise InvalidGraphError(f"a file of a model can't hold {value!r}")
    tag, parts = _TAGS[type(value)]
    return {tag: [encoded(v) for v in parts(value)]}


def decoded(value: Any) -> Any:
    """Return what `encoded` wrote."""
    if isinstance(value, list):
        return [decoded(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((tag, parts),) = value.items()
    if tag == "":
        return {k: decoded(v) for k, v in parts}
    return _MAKERS[tag](*map(decoded, parts))


# -- reading


def load_model(path: str) -> Any:
    """Compile the model of a file that `save` wrote; see `load`, which names the file in errors."""
    try:
        with open_limited(path, 1 << 62) as file:
            header = _header(file)
            constants = [*_constants(header, file.fileno())]
        measured = paces_of(header["measured"])
        sizes = [tuple(tuple(map(int, s)) for s in shapes) for shapes in header["sizes"]]
        known_here = header["facts"] == facts()
        if "onnx" in header:
            if not known_here:
                header.pop("ready", None)  # the graphs that it chose
            front_end = import_module(f"{_PACKAGE}.onnx.saved")
            compiled = front_end.from_file(header, constants, sizes)
        else:
            builder, options = built(header["graph"], constants), dict(header["options"])
            compiled = partial(restored, builder, options, header["device"], None, sizes)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as e:
        raise GraphFormatError(f"no file of a model: {error_text(e)}") from None
    if known_here:
        remember(measured)
    elif measured:
        warnings.warn(
            f"{path}: another CPU or oneDNN chose the forms of this model; this one chooses again",
            RuntimeWarning,
            stacklevel=3,
        )
    return compiled()


def _header(file: BinaryIO) -> dict[str, Any]:
    """Return the header of a file, with where the constants begin."""
    first = file.readline(len(FIRST_LINE) + 8)
    if first != FIRST_LINE:
        known = first.startswith(FIRST_LINE[:22])
        raise ValueError(f"its format is {first!r}" if known else "it does not begin as one")
    length, checksum = map(int, file.readline(64).split())
    if not 0 < length <= _LARGEST_HEADER:
        raise ValueError(f"its header has {length} bytes")
    text = file.read(length)
    if len(text) < length:
        raise ValueError("it was cut within its header")
    if zlib.crc32(text) != checksum:
        raise ValueError("its header was changed")
    header = json.loads(text)
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    header["begin"] = file.tell() + 1
    return header


def _constants(header: Mapping[str, Any], file: int) -> Iterator[tuple[npt.NDArray[Any], str, str]]:
    """Yield each constant with its data type and name, in the memory of the file."""
    at, end = header["begin"], os.fstat(file).st_size
    records = header["graph"]["constants"]
    for (shape, dtype, name), (size, checksum) in zip(records, header["constants"], strict=True):
        at += -at % _ALIGNMENT
        if not isinstance(size, int) or not 0 <= size <= end - at:
            raise ValueError(f"it was cut within constant {name!r}")
        stored = mapped(file, at, size)
        if zlib.crc32(stored.data) != checksum:
            raise ValueError(f"constant {name!r} was changed")
        if dtype in _PACKED:
            yield unpacked(stored, shape, dtype), dtype, name
        else:
            numpy_dtype = {**NUMPY_DTYPES, **HOST_DTYPES}[dtype]
            yield stored.view(numpy_dtype).reshape(shape), dtype, name
        at += size


def built(
    graph: Mapping[str, Any], constants: Iterable[tuple[npt.NDArray[Any], str, str]]
) -> GraphBuilder:
    """Return the graph that `described` told, of its constants."""
    mode, to_int = graph["fpmath"]
    builder = GraphBuilder(graph["engine"], mode, apply_to_int=bool(to_int))
    values: list[Value] = [
        builder.input(shape, dtype, name=name, strides=strides, updated=updated)
        for shape, dtype, name, strides, updated in graph["inputs"]
    ]
    values += [builder.constant(a, t, name=name, copy=None) for a, t, name in constants]
    for kind, name, where, inputs, what, attrs, outputs in graph["nodes"]:
        read = [values[i] for i in inputs]
        if what == "view":
            results = builder.add_view(kind, read[0], decoded(attrs))
        elif what == "block's update":
            results = builder.update(decoded(attrs)[0], *read, name=name)
        elif what == "block's call":
            function, declared = decoded(attrs)
            results = builder.call(function, *read, outputs=declared, name=name)
        elif what == "island":
            island = import_module(f"{_PACKAGE}.onnx.islands").from_file(attrs)
            results = builder.call(island, *read, outputs=island.promised, name=name)
        elif what != "op":
            call = _function(what, *attrs)
            results = builder.call(call, *read, outputs=call.outputs, name=name)
        else:
            specs = [(None if s is None else tuple(s), t) for s, t in outputs]
            results = builder.add_op(
                kind, read, decoded(attrs), outputs=specs, name=name or None, where=where
            )
        object.__setattr__(builder.contents.nodes[-1], "where", where)
        if results is not None:  # an End has no output
            values += results if isinstance(results, tuple) else [results]
    builder.output(**{name: values[i] for name, i in graph["outputs"].items()})
    builder.contents.conditions = decoded(graph.get("conditions", []))
    return builder


def _function(what: str, op: str, args: Any, kwargs: Any, read: Any, outputs: Any) -> HostFunction:
    table: Container[str] = _FUNCTIONS
    kind = HostFunction
    if what != "call":
        calls = import_module(f"{_PACKAGE}.frontends.host_calls")
        table, kind = calls.HOST, calls.HostCall
    if op not in table and (what != "call" or "__" in op or not is_ufunc(op)):
        raise ValueError(f"it calls {op!r}, which is none of the functions that models call")
    results = tuple((tuple(dims), dtype) for dims, dtype in outputs)
    return kind(op, tuple(decoded(args)), decoded(kwargs), tuple(read), results)

"""Results of a node: inferred by ONNX, and computed of known numbers."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.defs
import onnx.helper
import onnx_ir as ir

from ..base.errors import GraphFormatError
from .loading import subgraphs
from .tensors import NUMPY, Shape, Tensor

MOST_READ = 1024
"""Elements of known inputs that shape inference reads; shapes, axes and the like have fewer."""

_MOST_FACTORS = 16  # elements of floats that it reads, such as scales of a Resize


_POOLING = frozenset({"AveragePool", "LpPool", "MaxPool"})
"""Ops in whose older opsets onnx counts a last window that begins behind the elements."""

TYPES = {name: ir.DataType.from_numpy(dtype) for name, dtype in NUMPY.items()}
"""ONNX's data types by the package's names."""

NAMES = {dtype: name for name, dtype in TYPES.items()}
"""The package's names of ONNX's data types."""


def name_of(dtype: ir.DataType | None) -> str:
    """Return the package's name of a data type, or ONNX's own for one that it lacks."""
    if dtype is None:
        return "undefined"
    own: str = dtype.name.lower()
    return NAMES.get(dtype, own)


Inferred = tuple[str, "Shape | None"]
"""The data type of a result, and its dims if they follow from those of the inputs."""


class NodeFacts:
    """Answers about one node of a model; kept with it, since each asks ONNX anew."""

    def __init__(self, node: ir.Node, opsets: Mapping[str, int]) -> None:
        self.node = node
        self.version = node.version or opsets.get(node.domain, 1)
        self._opsets = tuple(opsets.items())
        try:
            self._proto: onnx.NodeProto = ir.to_proto(node)
        except Exception as e:  # onnx_ir raises what it meets
            raise GraphFormatError(f"node {node.name!r} ({node.op_type}) is not valid: {e}") from e
        computed = _as_computed(self._proto)
        if not subgraphs(node):  # which read by name
            computed = _numbered(computed)
        self._names, self._results = tuple(computed.input), tuple(computed.output)
        self._bytes = computed.SerializeToString()
        self._operation: Any = None
        version = self.version
        if node.domain == "" and node.op_type in _POOLING:
            version = max(version, min(22, onnx.defs.onnx_opset_version()))
        self._schema = _schema(node.op_type, version, node.domain)
        if node.op_type == "Einsum":
            equation = next((a.s for a in self._proto.attribute if a.name == "equation"), b"")
            if not _EQUATION.fullmatch(equation):
                self._schema = None  # onnx's inference never ends

    @property
    def has_schema(self) -> bool:
        """Whether ONNX knows the op."""
        return self._schema is not None

    def infer(
        self,
        operands: Sequence[Tensor | None],
        index: int,
        captured: Mapping[str, Tensor] | None = None,
    ) -> list[Inferred] | None:
        """Infer the results for one of the sets of dims; None if ONNX can't."""
        if self._schema is None:
            return None
        read = []
        named = [*zip(self._names, operands, strict=True), *(captured or {}).items()]
        for name, tensor in named:
            if tensor is None or not name:
                continue
            if tensor.dtype not in TYPES:
                return None
            array = None if tensor.arrays is None else tensor.arrays[index]
            numbers = None
            if array is not None:
                most = MOST_READ if array.dtype.kind in "biu" else _MOST_FACTORS
                numbers = array.tobytes() if array.size <= most else None
            read.append((name, tensor.dtype, tensor.shapes[index], numbers))
        found = [*_inferred(self._schema, self._bytes, tuple(read), self._results, self._opsets)]
        if self.node.op_type in ("Resize", "Upsample") and found[0] is not None:
            found[0] = self._resized(found[0], operands, index)
        return None if None in found else found  # type: ignore[return-value]

    def _resized(self, made: Inferred, operands: Sequence[Tensor | None], index: int) -> Inferred:
        """Return dims as all runtimes compute them of factors: in f32, where onnx takes f64."""
        dtype, shape = made
        given = {a.name: a for a in self._proto.attribute}
        old = self.version < 10 or self.node.op_type == "Upsample"
        place = 1 if old or self.version < 11 else 2
        factors: Any = given["scales"].floats if "scales" in given else None
        tensor = operands[place] if place < len(operands) else None
        if tensor is not None and tensor.arrays is not None:
            factors = tensor.arrays[index].reshape(-1)
        if shape is None or operands[0] is None or factors is None or not len(factors):
            return made
        sizes, dims = operands[0].shapes[index], list(shape)
        axes = given["axes"].ints if "axes" in given else range(len(dims))
        for axis, factor in zip(axes, factors, strict=True):
            dims[axis] = int(np.float32(sizes[axis]) * np.float32(factor))
        return dtype, tuple(dims)

    def evaluate(self, arrays: Sequence[npt.NDArray[Any] | None]) -> list[npt.NDArray[Any]] | None:
        """Compute the results of known numbers; None if ONNX has no reference for the op."""
        try:
            if self._operation is None:
                # They take as long to import as all else that a small model needs.
                from onnx.reference import ReferenceEvaluator
                from onnx.reference.ops import load_op

                from .corrections import CORRECTED

                made = CORRECTED.get(self.node.op_type) or load_op(
                    self.node.domain,
                    self.node.op_type,
                    self.version,
                    node=self._proto,
                    evaluator_cls=ReferenceEvaluator,
                )
                self._operation = made(
                    self._proto,
                    {
                        "log": lambda *_: None,
                        "opsets": dict(self._opsets),
                        "verbose": 0,
                        "new_ops": None,
                        "evaluator_cls": ReferenceEvaluator,
                    },
                )
            given = list(arrays)
            while given and given[-1] is None:
                given.pop()
            results = self._operation.run(*given)
        except Exception:  # reference ops raise whatever NumPy does
            return None
        if any(not isinstance(r, (np.ndarray, np.generic)) for r in results):
            return None
        return [np.asarray(r) for r in results]


_TERM = rb"[A-Za-z ]*(\.\.\.)?[A-Za-z ]*"
_EQUATION = re.compile(_TERM + rb"(," + _TERM + rb")*(->" + _TERM + rb")?")


@cache
def _schema(op: str, version: int, domain: str) -> Any:
    """Return ONNX's definition of an op, one object for all nodes; None if it has none."""
    try:
        return onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(4096)
def _inferred(
    schema: Any,
    node: bytes,
    read: tuple[tuple[str, str, Shape, bytes | None], ...],
    results: tuple[str, ...],
    opsets: tuple[tuple[str, int], ...],
) -> tuple[Inferred | None, ...]:
    """Infer the results of a node; equal layers of a model, and equal sizes, ask it once."""
    types, data = {}, {}
    for name, dtype, shape, numbers in read:
        made = onnx.helper.make_tensor_type_proto(TYPES[dtype], shape)
        types[name] = made.SerializeToString()
        if numbers is not None:
            tensor = onnx.TensorProto(data_type=TYPES[dtype], dims=shape, raw_data=numbers)
            data[name] = tensor.SerializeToString()
    try:
        inferred = schema._infer_node_outputs(node, types, data, {}, dict(opsets), onnx.IR_VERSION)
    except Exception:  # onnx has no common class for what inference raises
        return (None,)
    return tuple(
        ("", ()) if not name else _read(inferred[name]) if name in inferred else None
        for name in results
    )


def _numbered(proto: onnx.NodeProto) -> onnx.NodeProto:
    """Return a node with numbers for names, and without what inference does not read."""
    numbers: dict[str, str] = {"": ""}
    sides = (
        [numbers.setdefault(n, str(len(numbers))) for n in names]
        for names in (proto.input, proto.output)
    )
    made = onnx.helper.make_node(proto.op_type, *sides, domain=proto.domain)
    made.overload = proto.overload
    made.attribute.extend(proto.attribute)
    return made


def _as_computed(proto: onnx.NodeProto) -> onnx.NodeProto:
    """Return a node as inference has to see it: padding that runtimes choose is all there is."""
    chosen = next((a.s for a in proto.attribute if a.name == "auto_pad"), b"NOTSET")
    if chosen == b"NOTSET":
        return proto
    unread = {"pads"} if chosen == b"VALID" else {"pads", "output_padding"}
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    del made.attribute[:]
    made.attribute.extend(a for a in proto.attribute if a.name not in unread)
    return made


def _read(serialized: bytes) -> Inferred | None:
    proto = onnx.TypeProto.FromString(serialized)
    if proto.WhichOneof("value") != "tensor_type":
        return None
    tensor = proto.tensor_type
    dtype = name_of(ir.DataType(tensor.elem_type))
    if not tensor.HasField("shape"):
        return dtype, None
    dims = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return dtype, dims if min(dims, default=0) >= 0 else None


def nbytes(shape: Shape, dtype: str) -> int:
    """Return the bytes of a tensor; types that the package lacks count 8 an element."""
    wide = {"64": 8, "32": 4, "16": 2}.get(dtype[-2:], 1 if dtype in TYPES else 8)
    return math.prod(shape) * wide

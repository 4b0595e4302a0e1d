"""Random ONNX graphs with uneven attributes, whose results onnxruntime judges.

``python onnx_draws.py COUNT [FIRST]`` tests as many, and prints what is wrong.
"""

import functools
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from front_end_draws import LARGEST, ROUNDING, main
from onnx import TensorProto, helper, numpy_helper

import onednn_graph_py as og
from onednn_graph_py.onnx import load

Arrays = list[np.ndarray]
OPSETS = (11, 13, 17, 18, 19, 21)


REFUSED = tuple(
    getattr(ort.capi.onnxruntime_pybind11_state, name)
    for name in ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
)


PLAIN, FUSED = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL


def by_onnxruntime(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], level: ort.GraphOptimizationLevel = PLAIN
) -> Arrays:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(a) for a in session.run(None, feeds)]


class Graph:
    """A graph that grows by nodes that onnxruntime runs.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.opset = self.chance.choice(OPSETS)
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[str, np.ndarray] = {}
        self.inputs: dict[str, bool] = {}
        """Whether the first dim of an input is open."""
        self.weights: list[str] = []
        self.exact: set[str] = set()
        """Values that no rounding touched: what is not continuous reads only these."""

    def leaf(self, array: Any, is_input: bool = False, is_open: bool = False) -> str:
        name = f"{'x' if is_input else 'w'}{len(self.values)}"
        self.values[name] = np.asarray(array)
        self.exact.add(name)
        if is_input:
            self.inputs[name] = is_open
        else:
            self.weights.append(name)
        return name

    def floats(self, *shape: int) -> np.ndarray:
        return np.asarray(self.rng.uniform(-2, 2, shape), np.float32)

    def operand(self, *shape: int, low: float | None = None) -> str:
        """Return a weight, now and then an input."""
        made = self.floats(*shape)
        if low is not None:
            made = np.abs(made) + np.float32(low)
        return self.leaf(made, is_input=low is None and self.chance.random() < 0.2)

    def ints(self, *numbers: int) -> str:
        return self.leaf(np.array(numbers, np.int64))

    def dims(self, count: int, low: int = 1, high: int = 9) -> list[int]:
        return self.chance.sample(range(low, high + 1), count)

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attrs: Any) -> bool:
        """Add a node if onnxruntime runs it, and makes numbers that can be compared."""
        names = [f"v{len(self.values) + i}" for i in range(outputs)]
        node = helper.make_node(op, list(inputs), names, **attrs)
        read = {n: self.values[n] for n in inputs if n}
        try:
            made = by_onnxruntime(self.model([node], [], read, names), read)
        except REFUSED:
            return False
        for array in made:
            if array.dtype.kind == "f" and not (
                np.isfinite(array).all() and np.abs(array).max(initial=0) <= LARGEST
            ):
                return False
            if array.size > 50_000 or array.dtype == object:
                return False
        self.nodes.append(node)
        self.values.update(zip(names, made, strict=True))
        if op in MOVES and all(n in self.exact for n in read):
            self.exact.update(names)
        return True

    def model(
        self,
        nodes: Sequence[onnx.NodeProto],
        weights: Sequence[str],
        inputs: Any,
        outputs: Sequence[str],
    ) -> onnx.ModelProto:
        infos = []
        for name in inputs:
            array = self.values[name]
            dims: list[Any] = list(array.shape)
            if inputs is self.inputs and self.inputs[name]:
                dims[0] = "batch"
            type_ = helper.np_dtype_to_tensor_dtype(array.dtype)
            infos.append(helper.make_tensor_value_info(name, type_, dims))
        graph = helper.make_graph(
            nodes,
            "drawn",
            infos,
            [onnx.ValueInfoProto(name=n) for n in outputs],
            [numpy_helper.from_array(self.values[n], n) for n in weights],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def choice(self, *kinds: str, rank: int | None = None, exact: bool = False) -> str | None:
        """Return a value, mostly a late one, of a kind of numbers (f, i, u, b)."""
        fitting = [
            n
            for n, a in self.values.items()
            if a.dtype.kind in (kinds or ("f",))
            and (not kinds or a.dtype != np.int64)
            and n not in self.weights
            and (rank is None or a.ndim >= rank)
            and (not exact or n in self.exact)
        ]
        if not fitting:
            return None
        return self.chance.choice(fitting[-3:] if self.chance.random() < 0.7 else fitting)


MOVES = {
    "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Concat", "Split", "Slice",
    "Gather", "Pad", "Tile", "DepthToSpace", "SpaceToDepth", "Identity", "Trilu", "Abs", "Neg",
    "QuantizeLinear", "Cast", "Relu", "Max", "Min", "MaxPool", "GlobalMaxPool", "Where", "Clip",
    "GatherElements", "ReduceMax", "ReduceMin", "Equal", "Greater", "Less", "Not",
}  # fmt: skip


def _window(g: Graph, spatial: Sequence[int], dilated: bool = True) -> dict[str, Any]:
    """Draw a window that fits into the padded dims."""
    n = len(spatial)
    kernel = [g.chance.randint(1, min(4, d + 1)) for d in spatial]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance.random() < 0.6:
        attrs["strides"] = [g.chance.randint(1, 3) for _ in range(n)]
    if dilated and g.chance.random() < 0.4:
        attrs["dilations"] = [g.chance.randint(1, 3) for _ in range(n)]
    how = g.chance.random()
    if how < 0.55:
        attrs["pads"] = [g.chance.randint(0, max(0, k - 1)) for k in kernel * 2]
    elif how < 0.75:
        attrs["auto_pad"] = g.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"))
    return attrs


def _conv(g: Graph) -> bool:
    x = g.choice(rank=3)
    if x is None:
        return False
    channels = g.values[x].shape[1]
    attrs = _window(g, g.values[x].shape[2:])
    groups = g.chance.choice([d for d in range(1, channels + 1) if channels % d == 0] or [1])
    up = g.chance.random() < 0.35
    made = groups * g.chance.randint(1, 3)
    shape = (channels, made // groups) if up else (made, channels // groups)
    weights = g.operand(*shape, *attrs["kernel_shape"])
    if groups > 1 or g.chance.random() < 0.3:
        attrs["group"] = groups
    if g.chance.random() < 0.3:
        del attrs["kernel_shape"]
    bias = [g.operand(made)] if g.chance.random() < 0.5 else []
    if up and "strides" in attrs and g.chance.random() < 0.5:
        attrs["output_padding"] = [g.chance.randint(0, s - 1) for s in attrs["strides"]]
    return g.add("ConvTranspose" if up else "Conv", [x, weights, *bias], **attrs)


def _pool(g: Graph) -> bool:
    x = g.choice(rank=3)
    if x is None:
        return False
    kind = g.chance.choice(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    dilated = kind == "MaxPool" or (kind == "AveragePool" and g.opset >= 19)
    attrs = _window(g, g.values[x].shape[2:], dilated)
    if kind != "LpPool" and g.chance.random() < 0.4:
        attrs["ceil_mode"] = 1
    if kind == "AveragePool" and g.chance.random() < 0.5:
        attrs["count_include_pad"] = g.chance.randint(0, 1)
    if attrs.get("auto_pad", "").startswith("SAME"):
        # onnxruntime leaves dilations out of its paddings, and has negative ones.
        attrs.pop("dilations", None)
        attrs["strides"] = [g.chance.randint(1, k) for k in attrs["kernel_shape"]]
    if kind == "LpPool":
        attrs["p"] = g.chance.randint(1, 3)
        attrs.pop("auto_pad", None)
    several = kind == "MaxPool" and x in g.exact and g.chance.random() < 0.2
    return g.add(kind, [x], 2 if several else 1, **attrs)


def _global(g: Graph) -> bool:
    x = g.choice(rank=3)
    return x is not None and g.add(
        g.chance.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [x]
    )


def _product(g: Graph) -> bool:
    x = g.choice(rank=1)
    if x is None:
        return False
    shape = g.values[x].shape
    wide = g.chance.randint(1, 7)
    batch = [d if g.chance.random() < 0.6 else 1 for d in shape[:-2]]
    batch = batch[g.chance.randint(0, len(batch)) :]
    other = (shape[-1],) if g.chance.random() < 0.1 else (*batch, shape[-1], wide)
    return g.add("MatMul", [x, g.operand(*other)])


def _gemm(g: Graph) -> bool:
    x = g.choice(rank=2)
    if x is None or g.values[x].ndim != 2:
        return False
    a, b = (g.chance.randint(0, 1) for _ in range(2))
    rows, inner = g.values[x].shape[::-1] if a else g.values[x].shape
    wide = g.chance.randint(1, 7)
    y = g.operand(*((wide, inner) if b else (inner, wide)))
    inputs = [x, y]
    if g.chance.random() < 0.7:
        inputs.append(g.operand(*g.chance.choice(((wide,), (rows, 1), (1, wide), (1,), ()))))
    attrs: dict[str, Any] = {}
    if a or g.chance.random() < 0.5:
        attrs["transA"] = a
    if b or g.chance.random() < 0.5:
        attrs["transB"] = b
    for name in ("alpha", "beta"):
        if g.chance.random() < 0.4:
            attrs[name] = g.chance.choice((0.5, 2.25, -1.0, 0.0))
    return g.add("Gemm", inputs, **attrs)


def _beside(g: Graph, shape: Sequence[int]) -> list[int]:
    """Return a shape that broadcasts with another one, or widens it."""
    dims = [d if g.chance.random() < 0.6 else 1 for d in shape]
    dims = [g.chance.randint(2, 4) if d == 1 and g.chance.random() < 0.1 else d for d in dims]
    if g.chance.random() < 0.1:
        dims = [g.chance.randint(1, 3), *dims]
    return dims[g.chance.randint(0, len(dims)) if g.chance.random() < 0.4 else 0 :]


def _binary(g: Graph) -> bool:
    x = g.choice()
    if x is None:
        return False
    kind = g.chance.choice(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mod", "Sum"))
    shape = g.values[x].shape
    same = [
        n
        for n, a in g.values.items()
        if a.dtype == np.float32 and n != x and n not in g.weights and a.shape == shape
    ]
    if kind == "PRelu":
        return g.add(kind, [x, g.operand(*[d if g.chance.random() < 0.6 else 1 for d in shape])])
    if kind == "Pow":
        return g.add(kind, [x, g.leaf(np.float32(g.chance.choice((2, 3, 0, 1))))])
    if kind == "Mod":
        # A remainder is not continuous.
        if x not in g.exact:
            return False
        return g.add(kind, [x, g.operand(*_beside(g, shape), low=0.7)], fmod=1)
    if kind == "Div":
        return g.add(kind, [x, g.operand(*_beside(g, shape), low=0.5)])
    other = g.chance.choice(same) if same and g.chance.random() < 0.4 else None
    pair = [x, other or g.operand(*_beside(g, shape))]
    if kind in ("Max", "Min", "Sum") and g.chance.random() < 0.3:
        pair = [*pair[: g.chance.randint(1, 2)], g.operand(*shape[-1:])]
    if g.chance.random() < 0.5:
        pair.reverse()
    return g.add(kind, pair)


def _maybe(g: Graph, **given: Any) -> dict[str, Any]:
    """Leave attributes out, one by one."""
    return {k: v for k, v in given.items() if g.chance.random() < 0.6}


PLAIN = (
    "Relu", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Abs", "Neg", "Exp", "Identity",
    "Sin", "Cos",
)  # fmt: skip


def _unary(g: Graph) -> bool:
    x = g.choice()
    if x is None:
        return False
    kinds: dict[str, dict[str, Any]] = {k: {} for k in PLAIN}
    kinds |= {
        "LeakyRelu": _maybe(g, alpha=0.3),
        "Elu": _maybe(g, alpha=0.7),
        "Selu": _maybe(g, alpha=1.4, gamma=0.8),
        "Celu": _maybe(g, alpha=0.7),
        "HardSigmoid": _maybe(g, alpha=0.3, beta=0.4),
        "ThresholdedRelu": _maybe(g, alpha=0.8),
        "LogSoftmax": _maybe(g, axis=g.chance.randint(-2, 2)),
        "Softmax": _maybe(g, axis=g.chance.randint(-2, 3)),
        "Shrink": _maybe(g, bias=0.3, lambd=0.4),
    }
    if g.opset >= 14:
        kinds["HardSwish"] = {}
    if g.opset >= 18:
        kinds["Mish"] = {}
    if g.opset >= 20:
        kinds["Gelu"] = _maybe(g, approximate=g.chance.choice(("tanh", "none")))
    kind = g.chance.choice(list(kinds))
    if kind in ("ThresholdedRelu", "Shrink") and x not in g.exact:
        return False
    return g.add(kind, [x], **kinds[kind])


def _positive(g: Graph) -> bool:
    """Roots and logarithms, of what is positive."""
    x = g.choice()
    if x is None or not g.add("Abs", [x]):
        return False
    y = list(g.values)[-1]
    if not g.add("Add", [y, g.leaf(np.float32(0.3))]):
        return False
    return g.add(g.chance.choice(("Sqrt", "Log", "Reciprocal")), [list(g.values)[-1]])


def _clip(g: Graph) -> bool:
    x = g.choice()
    if x is None:
        return False
    low, high = (g.leaf(np.float32(v)) for v in (-0.7, 1.3))
    return g.add("Clip", [x, *g.chance.choice(([low, high], [low], ["", high], []))])


def _reduce(g: Graph) -> bool:
    x = g.choice(rank=1)
    if x is None:
        return False
    if not g.values[x].size:
        return False  # ONNX says nothing of the mean of no elements
    rank = g.values[x].ndim
    kind = "Reduce" + g.chance.choice(
        ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
    )
    axes = g.chance.sample(range(-rank, rank), g.chance.randint(0, rank))
    if len({a % rank for a in axes}) < len(axes):
        return False
    attrs = _maybe(g, keepdims=g.chance.randint(0, 1))
    as_input = g.opset >= (13 if kind == "ReduceSum" else 18)
    if as_input:
        attrs |= _maybe(g, noop_with_empty_axes=g.chance.randint(0, 1))
        return g.add(kind, [x, g.ints(*axes)] if g.chance.random() < 0.8 else [x], **attrs)
    return g.add(kind, [x], **attrs, **({"axes": axes} if axes else {}))


def _shape(g: Graph) -> bool:
    x = g.choice("f", "b", "i", "u")
    if x is None:
        return False
    shape, rank, pick = g.values[x].shape, g.values[x].ndim, g.chance
    kind = pick.choice(
        ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile", "Identity")
    )
    if kind == "Reshape":
        dims = list(shape)
        i = pick.randint(0, max(0, rank - 2))
        if rank > 1 and pick.random() < 0.6:
            dims[i : i + 2] = [dims[i] * dims[i + 1]]
        elif rank and dims[i] % 2 == 0:
            dims[i : i + 1] = [2, dims[i] // 2]
        if dims and pick.random() < 0.6:
            dims[pick.randrange(len(dims))] = -1
        if rank and len(dims) and dims[0] == shape[0] and pick.random() < 0.5:
            dims[0] = 0
        return g.add(kind, [x, g.ints(*dims)])
    if kind == "Transpose":
        return rank > 0 and g.add(kind, [x], **_maybe(g, perm=pick.sample(range(rank), rank)))
    if kind == "Flatten":
        return g.add(kind, [x], **_maybe(g, axis=pick.randint(-rank, rank)))
    if kind == "Squeeze":
        ones = [i - pick.choice((0, rank)) for i, d in enumerate(shape) if d == 1]
        if not ones or pick.random() < 0.2:
            return g.add(kind, [x])
        axes = pick.sample(ones, pick.randint(1, len(ones)))
    elif kind == "Unsqueeze":
        if rank > 4:
            return False
        axes = pick.sample(range(-(rank + 2), rank + 2), pick.randint(1, 2))
        if len({a % (rank + len(axes)) for a in axes}) < len(axes):
            return False
    elif kind == "Expand":
        return g.add(kind, [x, g.ints(*_beside(g, shape))])
    elif kind == "Tile":
        return g.add(kind, [x, g.ints(*(pick.randint(1, 2) for _ in shape))])
    else:
        return g.add(kind, [x])
    if g.opset >= 13:
        return g.add(kind, [x, g.ints(*axes)])
    return g.add(kind, [x], axes=axes)


def _pieces(g: Graph) -> bool:
    x = g.choice("f", "i", "u", rank=1)
    if x is None:
        return False
    array, pick = g.values[x], g.chance
    rank = array.ndim
    axis = pick.randrange(-rank, rank)
    size = array.shape[axis]
    kind = pick.choice(("Split", "Slice", "Slice", "Gather", "Concat", "Pad", "CumSum", "Trilu"))
    if kind == "Split":
        cut = pick.randint(0, size)
        if g.opset >= 13:
            return g.add(kind, [x, g.ints(cut, size - cut)], 2, axis=axis)
        return g.add(kind, [x], 2, axis=axis, split=[cut, size - cut])
    if kind == "Slice":
        step = pick.choice((1, 1, 2, -1, -2))
        begin, end = sorted(pick.randint(-size, size + 2) for _ in range(2))
        if step < 0:
            begin, end = pick.choice(((end, begin), (end, -(2**31)), (2**31 - 1, begin)))
        elif pick.random() < 0.3:
            end = 2**63 - 1
        lists = [g.ints(begin), g.ints(end), g.ints(axis)]
        return g.add(kind, [x, *lists, *([g.ints(step)] if step != 1 else [])])
    if kind == "Gather":
        if not size:
            return False
        at = [pick.randint(-size, size - 1) for _ in range(pick.randint(1, 4))]
        where = np.array(pick.choice((at, at[0], [at])), np.int64)
        return g.add(kind, [x, g.leaf(where)], axis=axis)
    if kind == "Concat":
        dims = list(array.shape)
        dims[axis] = pick.randint(1, 3)
        if array.dtype != np.float32:
            return g.add(kind, [x, x], axis=axis)
        parts = pick.sample([x, x, g.operand(*dims)], pick.randint(1, 3))
        return g.add(kind, parts, axis=axis)
    if array.dtype != np.float32:
        return False
    if kind == "Pad":
        pads = [pick.randint(-1, 2) if pick.random() < 0.6 else 0 for _ in range(2 * rank)]
        mode = pick.choice(("constant", "constant", "edge", "reflect"))
        if mode != "constant":
            pads = [max(0, min(p, d - 1)) for p, d in zip(pads, array.shape * 2, strict=True)]
        value = pick.choice(([], [g.leaf(np.float32(0.75))])) if mode == "constant" else []
        attrs = _maybe(g, mode=mode) if mode == "constant" else {"mode": mode}
        return g.add(kind, [x, g.ints(*pads), *value], **attrs)
    if kind == "Trilu":
        if rank < 2 or g.opset < 14:
            return False
        shift = pick.choice(([], [g.leaf(np.int64(pick.randint(-2, 2)))]))
        return g.add(kind, [x, *shift], **_maybe(g, upper=pick.randint(0, 1)))
    attrs = _maybe(g, exclusive=pick.randint(0, 1), reverse=pick.randint(0, 1))
    return g.add(kind, [x, g.leaf(np.int64(axis))], **attrs)


def _norm(g: Graph) -> bool:
    x = g.choice(rank=2)
    if x is None:
        return False
    shape, pick = g.values[x].shape, g.chance
    if not g.values[x].size:
        return False  # onnxruntime crashes
    # What varies by little more than its rounding errors has no digits once it is normalized.
    if g.values[x].std(axis=tuple(range(min(2, len(shape) - 1), len(shape)))).min() < 0.05:
        return False
    rank, channels = len(shape), shape[1]
    kinds = ["BatchNormalization", "LRN", "MeanVarianceNormalization"]
    if rank > 2:
        kinds.append("InstanceNormalization")
    if g.opset >= 17:
        kinds += ["LayerNormalization"] * 2
    if g.opset >= 21:
        kinds.append("GroupNormalization")
    kind = pick.choice(kinds)
    eps = _maybe(g, epsilon=pick.choice((1e-3, 0.1)))
    if kind == "BatchNormalization":
        four = [g.operand(channels) for _ in range(3)]
        return g.add(kind, [x, *four, g.operand(channels, low=0.2)], **eps)
    if kind == "LRN":
        size = pick.choice((1, 3, 5))
        return rank > 2 and g.add(kind, [x], size=size, **_maybe(g, alpha=0.3, beta=0.6, bias=1.5))
    if kind == "MeanVarianceNormalization":
        return rank == 4 and g.add(kind, [x], **_maybe(g, axes=sorted(pick.sample(range(4), 2))))
    if kind == "InstanceNormalization":
        return g.add(kind, [x, g.operand(channels), g.operand(channels)], **eps)
    if kind == "GroupNormalization":
        groups = pick.choice([d for d in range(1, channels + 1) if channels % d == 0])
        two = [g.operand(channels), g.operand(channels)]
        return rank > 2 and g.add(kind, [x, *two], num_groups=groups, **eps)
    axis = pick.randrange(-rank, rank)
    inner = shape[axis % rank :]
    affine = [g.operand(*inner), *([g.operand(*inner)] if pick.random() < 0.7 else [])]
    attrs = {"axis": axis} if axis != -1 or pick.random() < 0.5 else {}
    return g.add(kind, [x, *affine], **attrs, **eps)


def _resize(g: Graph) -> bool:
    x = g.choice(rank=3)
    if x is None or g.values[x].ndim > 4 or not g.values[x].size:
        return False
    shape, pick = g.values[x].shape, g.chance
    modes = ("nearest", "linear", "linear", *(["cubic"] if g.values[x].ndim == 4 else []))
    mode = pick.choice(modes)
    attrs: dict[str, Any] = {"mode": mode}
    attrs |= _maybe(
        g,
        coordinate_transformation_mode=pick.choice(
            ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        ),
    )
    if mode == "nearest":
        attrs |= _maybe(
            g,
            nearest_mode=pick.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
        )
    none = g.leaf(np.zeros(0, np.float32))
    if pick.random() < 0.5:
        sizes = [*shape[:2], *(pick.randint(1, 2 * d) for d in shape[2:])]
        return g.add("Resize", [x, none, none, g.ints(*sizes)], **attrs)
    # If no size changes, onnxruntime returns its input, and ONNX says to interpolate by the scales.
    factors = [[s for s in (0.5, 1, 1.5, 2, 1.3) if s == 1 or int(d * s) != d] for d in shape[2:]]
    scales = [1, 1, *map(pick.choice, factors)]
    return g.add("Resize", [x, none, g.leaf(np.array(scales, np.float32))], **attrs)


def _compare(g: Graph) -> bool:
    x = g.choice(exact=True)
    if x is None:
        return False
    shape = g.values[x].shape
    kind = g.chance.choice(("Greater", "Less", "Equal", "Where"))
    if kind != "Where":
        return g.add(kind, [x, g.operand(*_beside(g, shape))])
    where = g.leaf(g.rng.random(_beside(g, shape)) < 0.5)
    return g.add("Where", [where, *g.chance.sample([x, g.operand(*_beside(g, shape))], 2)])


def _quantize(g: Graph) -> bool:
    """A value in 8 bits and back, the scales and zero points of channels uneven."""
    x = g.choice(rank=1, exact=True)
    if x is None:
        return False
    pick, array = g.chance, g.values[x]
    axis = pick.randrange(-array.ndim, array.ndim)
    of_channels = pick.random() < 0.5
    count = array.shape[axis] if of_channels else 1
    scales = (0.01 + 0.03 * g.rng.random(count)).astype(np.float32)
    dtype = pick.choice((np.uint8, np.int8))
    zero = g.rng.integers(*((100, 150) if dtype == np.uint8 else (-9, 9)), count).astype(dtype)
    if not of_channels:
        scales, zero = scales[0], zero[0]
    # The same weights are read by both, and without a zero point the type is u8.
    both = [g.leaf(scales), g.leaf(zero)]
    if dtype == np.uint8 and pick.random() < 0.2:
        both = both[:1]
    attrs = {"axis": axis} if g.opset >= 13 and of_channels else {}
    if of_channels and g.opset < 13:
        return False
    if not g.add("QuantizeLinear", [x, *both], **attrs):
        return False
    return g.add("DequantizeLinear", [list(g.values)[-1], *both], **attrs)


def _int8_weights(g: Graph) -> bool:
    """A product with weights in 8 bits, a scale for each channel or one."""
    x = g.choice(rank=2)
    if x is None or g.opset < 13:
        return False
    inner, wide, pick = g.values[x].shape[-1], g.chance.randint(1, 7), g.chance
    axis = pick.choice((None, 0, 1, -1))
    count = {None: 1, 0: inner}.get(axis, wide)
    weights = g.leaf(g.rng.integers(-128, 127, (inner, wide)).astype(np.int8))
    scales = (0.005 + 0.01 * g.rng.random(count)).astype(np.float32)
    zero = g.rng.integers(-9, 9, count).astype(np.int8)
    if axis is None:
        scales, zero = scales[0], zero[0]
    more = [g.leaf(zero)] if pick.random() < 0.6 else []
    attrs = {} if axis is None or (axis == 1 and pick.random() < 0.5) else {"axis": axis}
    if not g.add("DequantizeLinear", [weights, g.leaf(scales), *more], **attrs):
        return False
    return g.add("MatMul", [x, list(g.values)[-1]])


def _cast(g: Graph) -> bool:
    x = g.choice(exact=True)
    if x is None:
        return False
    types = (TensorProto.FLOAT16, TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE)
    return g.add("Cast", [x], to=g.chance.choice(types)) and g.add(
        "Cast", [list(g.values)[-1]], to=TensorProto.FLOAT
    )


DRAWS: tuple[tuple[Callable[[Graph], bool], int], ...] = (
    (_conv, 5), (_pool, 3), (_global, 1), (_product, 4), (_gemm, 2), (_binary, 6), (_unary, 5),
    (_positive, 1), (_clip, 1), (_reduce, 3), (_shape, 5), (_pieces, 4), (_norm, 3), (_resize, 1),
    (_compare, 1), (_quantize, 2), (_int8_weights, 2), (_cast, 1),
)  # fmt: skip


def drawn(seed: int) -> Graph:
    """Draw a graph of 1 to 7 nodes."""
    g = Graph(seed)
    rank = g.chance.choice((2, 3, 3, 4, 4, 5))
    shape = g.dims(rank, high=9 if rank < 4 else 7)
    g.leaf(g.floats(*shape), is_input=True, is_open=g.chance.random() < 0.4)
    kinds, shares = zip(*DRAWS, strict=True)
    wanted = g.chance.randint(1, 7)
    for _ in range(40):
        if len(g.nodes) >= wanted:
            break
        g.chance.choices(kinds, shares)[0](g)
    return g


def verdict_of(seed: int) -> tuple[str, str]:
    """Test a graph: "right", "wrong", "refused" or "empty", and what is wrong."""
    g = drawn(seed)
    read = {n for node in g.nodes for n in node.input}
    made = [n for node in g.nodes for n in node.output]
    if not made:
        return "empty", ""
    # The inputs of nodes that onnxruntime refused are not read.
    g.inputs = {n: is_open for n, is_open in g.inputs.items() if n in read}
    ends = [n for n in made if n not in read or g.chance.random() < 0.15]
    weights = [n for n in g.weights if n in read]
    if seed % 7 == 0:  # all is known before the first call
        weights, g.inputs = [*weights, *g.inputs], {}
    model = g.model(g.nodes, weights, g.inputs, ends)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = load(model)
    except og.OneDNNError as e:
        return "refused", f"{type(e).__name__}: {e}"
    feeds = {n: g.values[n] for n in g.inputs}
    other = {n: _other(g, n, 0) for n in g.inputs}
    larger = {n: _other(g, n, 2) for n in g.inputs}
    for number, call in enumerate((feeds, other, larger, feeds)):
        try:
            expected, close = _expected(g, model, call)
        except REFUSED:  # a batch that the graph is not made for
            continue
        try:
            got = loaded(*call.values())
        except og.OneDNNError as e:
            return "refused", f"call {number}: {type(e).__name__}: {e}"
        got = got if isinstance(got, tuple) else (got,)
        for i, (name, one, want, near) in enumerate(zip(ends, got, expected, close, strict=True)):
            if (one.shape, one.dtype) != (want.shape, want.dtype):
                return "wrong", f"{name}: {one.shape} {one.dtype}, not {want.shape} {want.dtype}"
            if not np.isfinite(want.astype(float)).all():
                continue
            off = np.abs(one.astype(float) - want.astype(float)).max(initial=0.0)
            # Its sessions differ in which of two equal maxima they give the place of.
            if not off <= near and not np.array_equal(one, by_onnxruntime(model, call, FUSED)[i]):
                return "wrong", f"call {number}, {name} of {want.shape}: off by {off}, not {near}"
    return "right", ""


def _other(g: Graph, name: str, more: int) -> np.ndarray:
    """Return other numbers for an input, with a larger batch where it is open."""
    shape = list(g.values[name].shape)
    if g.inputs[name]:
        shape[0] += more
    return g.floats(*shape)


def _expected(
    g: Graph, model: onnx.ModelProto, feeds: dict[str, np.ndarray]
) -> tuple[Arrays, list[float]]:
    """Return what onnxruntime makes, and how far results move by a few roundings of inputs."""
    expected = by_onnxruntime(model, feeds)
    moved = [0.0] * len(expected)
    # Two roundings up, and down, find what is rounded the other way a bit beside it.
    moves = [functools.partial(g.rng.uniform, -(2.0**-20), 2.0**-20)] * 3
    for move in (*moves, lambda _: 2.0**-22, lambda _: -(2.0**-22)):
        near = {n: np.asarray(a * (1 + move(a.shape)), a.dtype) for n, a in feeds.items()}
        for i, array in enumerate(by_onnxruntime(model, near)):
            with np.errstate(invalid="ignore"):  # of two infinities, which are not moved
                apart = np.abs(array.astype(float) - expected[i].astype(float))
            apart = np.nan_to_num(apart, nan=0.0, posinf=np.inf)
            moved[i] = max(moved[i], float(apart.max(initial=0.0)))
    sizes = [float(np.abs(a.astype(float)).max(initial=0.0)) for a in expected]
    # What is near 0 may be a difference of larger numbers, as in LogSoftmax.
    within = [
        np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in g.values.values() if a.dtype == "f"
    ]
    least = max(1e-6, 2.0**-23 * float(max(within, default=0.0)))
    return expected, [
        16 * far
        + (size * max(ROUNDING, np.finfo(a.dtype).eps) + least if a.dtype.kind == "f" else 0.0)
        for far, size, a in zip(moved, sizes, expected, strict=True)
    ]


if __name__ == "__main__":
    main(verdict_of)

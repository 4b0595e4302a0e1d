"""Every lowering of torch's ops against torch: with torch's own samples, and NaN and infinities."""

import gc
import itertools
import math
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="torch's own samples need it")

from torch._dispatch.python import enable_python_dispatcher  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import onednn_graph_py.torch  # noqa: E402
from onednn_graph_py.base.linked import linked_version  # noqa: E402
from onednn_graph_py.machine.cpu import lacks  # noqa: E402
from onednn_graph_py.model.building.value import Node  # noqa: E402
from onednn_graph_py.ops.inference import make_call  # noqa: E402
from onednn_graph_py.ops.lookup import row  # noqa: E402
from onednn_graph_py.reference.tolerance import tolerance  # noqa: E402
from onednn_graph_py.torch import capture  # noqa: E402
from onednn_graph_py.torch.captured import Captured  # noqa: E402
from onednn_graph_py.torch.division import moves  # noqa: E402
from onednn_graph_py.torch.lowering import LOWERINGS  # noqa: E402
from onednn_graph_py.torch.options import Options  # noqa: E402

F = torch.nn.functional
aten = torch.ops.aten

pytestmark = [
    pytest.mark.filterwarnings("ignore::onednn_graph_py.torch.FallbackWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same'"),
]

MOST = 16
"""Samples of an op and data type that are run: as many, spread over all that torch has."""

UNIT = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
"""The largest relative error of one rounding."""

FUNCTIONS = """
    relu mish hardswish hardsigmoid hardtanh relu6 gelu silu elu celu leaky_relu linear
    conv_transpose1d scaled_dot_product_attention layer_norm rms_norm group_norm instance_norm
    batch_norm max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d
"""
NAMES = """
    sigmoid tanh exp log sqrt rsqrt reciprocal abs neg square round maximum minimum index_copy
    matmul mm bmm addmm baddbmm roll mv amax amin cat stack view unsqueeze permute t expand
    split_with_sizes clone
"""
OPS = {
    **{f"nn.functional.{name}": f"{name}.default" for name in FUNCTIONS.split()},
    **{name: f"{name}.default" for name in NAMES.split()},
    "nn.functional.selu": "elu.default",
    "nn.functional.prelu": "_prelu_kernel.default",
    "nn.functional.logsigmoid": "log_sigmoid_forward.default",
    "add": "add.Tensor",
    "sub": "sub.Tensor",
    "rsub": "rsub.Tensor",
    "mul": "mul.Tensor",
    "div": "div.Tensor",
    "where": "where.self",
    "nn.functional.conv1d": "conv1d.default conv1d.padding",
    "nn.functional.conv2d": "conv2d.default conv2d.padding",
    "nn.functional.conv3d": "conv3d.default conv3d.padding",
    "nn.functional.conv_transpose2d": "conv_transpose2d.input",
    "nn.functional.conv_transpose3d": "conv_transpose3d.input",
    "softmax": "softmax.int",
    "log_softmax": "log_softmax.int",
    "torch.ops.aten._safe_softmax.default": "_safe_softmax.default",
    "nn.functional.interpolate": "upsample_bilinear2d.vec",
    "mean": "mean.dim mean.default",
    "sum": "sum.dim_IntList sum.default",
    "prod": "prod.default prod.dim_int",
    "var": "var.correction",
    "var_mean": "var_mean.correction",
    "std": "std.correction",
    "linalg.vector_norm": "linalg_vector_norm.default",
    "masked_fill": "masked_fill.Scalar",
    "lerp": "lerp.Scalar",
    "addcdiv": "addcdiv.default",
    "addcmul": "addcmul.default",
    "flatten": "",
    "unflatten": "view.default",
    "squeeze": "squeeze.default squeeze.dim",
    "movedim": "permute.default",
    "transpose": "transpose.int",
    "expand_as": "expand.default",
    "narrow": "slice.Tensor",
    "select": "select.int",
    "split": "split.Tensor",
    "chunk": "split.Tensor",
    "unbind": "unbind.int",
    "contiguous": "",
}
"""torch's samples by name, and the overloads of aten that oneDNN must run in some of them."""


SINCE = {"torch.ops.aten._safe_softmax.default": (3, 8)}
"""The oneDNN from which on an op runs."""


def numbers(*shape, dtype=torch.float32):
    return torch.linspace(-2.0, 2.0, math.prod(shape)).reshape(shape).to(dtype)


def by_tensor(x):
    whole = (0.25, 3, 0, 255, torch.uint8)
    decomposed = torch.ops.quantized_decomposed
    return decomposed.dequantize_per_tensor(
        decomposed.quantize_per_tensor(x.float(), *whole), *whole
    )


def by_channel(x):
    rows = (torch.full((2,), 0.5), torch.full((2,), 0), 0, -128, 127, torch.int8)
    decomposed = torch.ops.quantized_decomposed
    return decomposed.dequantize_per_channel(
        decomposed.quantize_per_channel(x.float(), *rows), *rows
    )


ALONE = {
    "quantized_decomposed.quantize_per_tensor.default": by_tensor,
    "quantized_decomposed.dequantize_per_tensor.default": by_tensor,
    "quantized_decomposed.quantize_per_channel.default": by_channel,
    "quantized_decomposed.dequantize_per_channel.default": by_channel,
    "glu.default": lambda x: aten.glu(x, 1),
    "convolution.default": lambda x: aten.convolution(
        x.view(1, 4, 12), x[:, :16].reshape(2, 4, 4), None, [2], [1], [1], False, [0], 1
    ),
    "_native_batch_norm_legit_no_training.default": lambda x: (
        aten._native_batch_norm_legit_no_training(
            x.view(2, 4, 6), x[0, :4], x[0, 4:8], x[1, 4:8], x[1, :4] ** 2, 0.1, 1e-5
        )[0]
    ),
    "_adaptive_avg_pool2d.default": lambda x: aten._adaptive_avg_pool2d(x.view(2, 2, 4, 3), (2, 1)),
    "constant_pad_nd.default": lambda x: F.pad(x, (0, 0, 0, 0)),
    "clamp.default": lambda x: x.clamp(-0.5, 1.1),
    "pow.Tensor_Scalar": lambda x: x**3,
    "softplus.default": lambda x: F.softplus(x, 2),
    "native_layer_norm.default": lambda x: aten.native_layer_norm(x, [24], x[0], x[1], 1e-5)[0],
    "add.Scalar": lambda x: aten.add.Scalar(x, 2),
    "sub.Scalar": lambda x: aten.sub.Scalar(x, 0.3),
    "rsub.Scalar": lambda x: aten.rsub.Scalar(x, 0.3, 2),
    "mul.Scalar": lambda x: aten.mul.Scalar(x, 3),
    "div.Scalar": lambda x: aten.div.Scalar(x, 3),
    "upsample_nearest2d.vec": lambda x: F.interpolate(x.view(1, 1, 4, 12), scale_factor=2.0),
    "clamp_min.default": lambda x: aten.clamp_min.default(x, -0.5),
    "clamp_max.default": lambda x: aten.clamp_max.default(x, 0.5),
    "_to_copy.default": lambda x: (x.to(torch.float32) * 2).to(torch.bfloat16),
    "_softmax.default": lambda x: aten._softmax.default(x, -1, False),
    "_log_softmax.default": lambda x: aten._log_softmax.default(x, -1, False),
    "squeeze.dims": lambda x: x[None, :, None].squeeze((0, 2)) + 1,
    "_unsafe_view.default": lambda x: aten._unsafe_view.default(x + 1, [x.numel()]),
    "alias.default": lambda x: aten.alias.default(x) + 1,
    "detach.default": lambda x: aten.detach.default(x) + 1,
    "lift_fresh_copy.default": lambda x: aten.lift_fresh_copy.default(x) + 1,
}
"""Calls that reach overloads which torch's samples do not, of a tensor of (2, 24)."""


@dataclass
class Outcome:
    """What became of the calls of some samples."""

    ran: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    left: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    in_onednn: int = 0


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def names(targets):
    return {t if t.startswith("quantized") else f"aten.{t}" for t in targets.split()}


def tensors_of(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def widened(given):
    """Return tensors and data types in f64, everything else as it is."""
    if isinstance(given, torch.Tensor) and given.is_floating_point():
        return given.double()
    return torch.float64 if isinstance(given, torch.dtype) and given.is_floating_point else given


def program_of(function, tensors, outcome):
    """Run a function by the backend, and return its results and the program that made them."""
    with capture.whole(), torch.no_grad(), enable_python_dispatcher():
        module = make_fx(lambda *given: function(*given), tracing_mode="fake")(*tensors)
    outcome.seen |= {str(node.target) for node in module.graph.nodes}
    captured = Captured(module, (), Options(min_ops=1, threads=1))
    with torch.no_grad():
        results = captured(list(tensors))
    (program,) = captured.living
    failures = [r.failure for r in program.regions if r.failure]
    assert not failures, failures
    left = {n: why for n, why in program.division.reasons.items() if not moves(n)}
    for node, why in left.items():
        assert "does not know these arguments" not in why, (node.target, why)
        outcome.left[f"{node.target}: {why}"] += 1
    outcome.samples += 1
    outcome.in_onednn += bool(program.regions) and not left
    return results, program


def steps_of(program):
    """Return the ops of a program's models, as the reference describes them."""
    for region in program.regions:
        for node in region.model.builder.nodes:
            if type(node) is Node:  # not a view
                yield make_call(
                    row(node.kind),
                    [(v.shape, v.dtype) for v in node.inputs],
                    node.attrs,
                    [(v.shape, v.dtype) for v in node.outputs],
                )


def same(function, tensors, outcome, targets, wide=None):
    """Compare a function by the backend with torch.

    Results in f64 say what is right. NaN and infinities must be where torch has them in the data
    type itself, since numbers overflow there sooner.

    Parameters
    ----------
    function : callable
    tensors : list of Tensor
        Its arguments.
    outcome : Outcome
        What it adds to.
    targets : set of str
        The ops that matter, or none for all; if none of them runs in oneDNN, nothing is compared.
    wide : callable, optional
        The function for arguments of f64.
    """
    made, program = program_of(function, tensors, outcome)
    ran = {str(n.target) for r in program.regions for n in r.nodes}
    outcome.ran |= ran
    if not (ran & targets if targets else ran):
        return
    wide = wide or function
    with torch.no_grad():
        eager = tensors_of(function(*tensors))
        doubles = [widened(t) for t in tensors]
        exact = tensors_of(wide(*doubles))
        terms = [torch.zeros(e.shape, dtype=torch.float64) for e in exact]
        generator = torch.Generator().manual_seed(0)
        for _ in range(4):  # see `reference.tolerance`
            changed = [
                t * (1 + 2.0**-20 * torch.randn(t.shape, generator=generator, dtype=t.dtype))
                if t.is_floating_point()
                else t
                for t in doubles
            ]
            for i, other in enumerate(tensors_of(wide(*changed))):
                if other.is_floating_point():
                    terms[i] += ((other - exact[i]).double().nan_to_num() * 2.0**20) ** 2
    calls = list(steps_of(program))
    limits = [tolerance(c) for c in calls]
    relative = sum(t.accumulation for t in limits if math.isfinite(t.accumulation))
    function_error = sum(t.function for t in limits)
    islands = len(program.division.reasons)
    floats = [t for t in doubles if t.is_floating_point() and t.numel()]
    largest = max((float(t.abs().nan_to_num(0, 0, 0).max()) for t in floats), default=1.0)
    results = tensors_of(made)
    assert len(results) == len(eager)
    for result, wanted, right, squares in zip(results, eager, exact, terms, strict=True):
        assert result.shape == wanted.shape
        assert result.dtype == wanted.dtype
        if not wanted.is_floating_point():
            assert torch.equal(result, wanted)
            continue
        narrow = [c for c in calls if c.outputs[0].dtype != "f32"]
        roundings = islands + 2 + (len(narrow) if wanted.dtype != torch.float32 else 0)
        size = torch.maximum(right.abs(), squares.sqrt())
        allowed = size * (relative + roundings * UNIT[wanted.dtype])
        allowed = allowed + function_error * size.clamp_min(1.0) * max(largest, 1.0) + 2.0**-126
        finite = wanted.isfinite()
        assert torch.equal(result[~finite].nan_to_num(7.0), wanted[~finite].nan_to_num(7.0)), (
            f"{result[~finite][:9]} instead of {wanted[~finite][:9]}"
        )
        finite &= right.isfinite()
        off = (result.double() - right).abs()[finite]
        bad = ~(off <= allowed[finite])
        assert not bad.any(), (
            f"{result[finite][bad][:5]} instead of {right[finite][bad][:5]}, off by "
            f"{off[bad][:5]}, allowed {allowed[finite][bad][:5]}"
        )


def samples_of(name, dtype):
    """Return functions of tensors alone with their tensors, and the functions for f64."""
    infos = [i for i in op_db if i.name == name and dtype in i.dtypes]
    for info in infos:
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
        for sample in random.Random(0).sample(samples, min(len(samples), MOST)):
            tree = (sample.input, sample.args, sample.kwargs)
            leaves, spec = pytree.tree_flatten(tree)
            places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

            def called(*tensors, info=info, leaves=leaves, spec=spec, places=places):
                filled = list(leaves)
                for place, tensor in zip(places, tensors, strict=True):
                    filled[place] = tensor
                first, args, kwargs = pytree.tree_unflatten(filled, spec)
                made = info.op(first, *args, **kwargs)
                # Views alone stay in torch, so something computes with them.
                return pytree.tree_map(lambda t: t * 2 if t.is_floating_point() else t, made)

            def wide(*tensors, called=called, leaves=leaves):
                return called(*tensors, leaves=[widened(leaf) for leaf in leaves])

            yield called, [leaves[i] for i in places], wide


DTYPES = [torch.float32] + [torch.bfloat16] * (lacks("bf16") is None)


@pytest.mark.parametrize("name", OPS)
def test_samples(name, record_property):
    outcome = Outcome()
    for dtype in DTYPES:
        for number, (function, tensors, wide) in enumerate(samples_of(name, dtype)):
            try:
                same(function, tensors, outcome, names(OPS[name]), wide)
            except Exception as e:
                shapes = [tuple(t.shape) for t in tensors]
                raise AssertionError(f"sample {number} of {dtype}, {shapes}: {e}") from e
    record_property("samples", (outcome.samples, outcome.in_onednn))
    record_property("left", dict(outcome.left))
    print(f"{outcome.in_onednn} of {outcome.samples} samples in oneDNN")
    for why, count in outcome.left.most_common():
        print(f"  {count:4} x {why}")
    lacking = SINCE.get(name, (0, 0)) > linked_version()
    assert lacking != (names(OPS[name]) <= outcome.ran), f"these did not run: {outcome.left}"
    assert lacking != bool(outcome.in_onednn)


@pytest.mark.parametrize("name", ALONE)
def test_overloads(name):
    outcome = Outcome()
    for dtype in DTYPES:
        same(ALONE[name], [numbers(2, 24, dtype=dtype)], outcome, names(name))
    if names(name).isdisjoint(outcome.seen):
        pytest.skip(f"torch {torch.__version__} leaves {name} out of its graphs")
    hardware = {
        op
        for op in names(name)
        for why in map(lacks, ("bf16", "f16"))
        if f"{op}: {why}" in outcome.left
    }
    assert names(name) <= outcome.ran | hardware, outcome.left


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_layers_of_an_encoder(activation, norm_first, dynamic):
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        48, 4, 96, activation=activation, batch_first=True, norm_first=norm_first
    )
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    run = torch.compile(module, backend=onednn_graph_py.torch.backend, dynamic=dynamic)
    with torch.no_grad():
        for tokens in (7, 12):
            x = torch.randn(2, tokens, 48)
            torch.testing.assert_close(run(x), module(x), rtol=1e-5, atol=1e-5)
    for graph in onednn_graph_py.torch.report(run).graphs:
        assert not graph.left
        assert [r.failure for r in graph.regions] == [None]


@pytest.mark.parametrize("kind", ["causal", "keys"])
def test_masks_that_torch_writes(kind):
    """Masks that `generate_square_subsequent_mask` and ``src_key_padding_mask`` give a layer."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(48, 4, 96, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def function(x):
        if kind == "keys":
            hidden = torch.arange(x.shape[1])[None] > torch.tensor([[3], [x.shape[1] - 2]])
            return module(x, src_key_padding_mask=hidden)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return module(x, mask=mask, is_causal=True)

    run = torch.compile(function, backend=onednn_graph_py.torch.backend)
    with torch.no_grad():
        for tokens in (7, 12, 5):
            x = torch.randn(2, tokens, 48)
            torch.testing.assert_close(run(x), function(x), rtol=1e-5, atol=1e-5)
    *_, graph = onednn_graph_py.torch.report(run).graphs
    assert graph.share > 0.9
    assert [r.failure for r in graph.regions] == [None]


def test_every_lowering_is_tested():
    tested = set().union(*map(names, (*OPS.values(), *ALONE)))
    tested.add("aten._transformer_encoder_layer_fwd.default")  # by test_layers_of_an_encoder
    tested.add("aten._weight_int4pack_mm_for_cpu.default")  # by test_torchao.py
    assert {str(t) for t in LOWERINGS if isinstance(t, torch._ops.OpOverload)} - tested == set()


INF, NAN = math.inf, math.nan
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 1e-30, -20.0, 89.0, -120.0, 3e38)

OF_ONE = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "prelu": lambda x: F.prelu(x, x.new_full((1,), 0.25)),
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "abs": torch.abs,
    "neg": torch.neg,
    "round": torch.round,
    "clamp": lambda x: x.clamp(-1.0, 2.0),
    "clamp_min": lambda x: x.clamp_min(0.0),
    "clamp_max": lambda x: x.clamp_max(1.0),
    "pow_1": lambda x: x**1.0,
    "pow_2": lambda x: x**2,
    "pow_3": lambda x: x**3,
    "pow_0.5": lambda x: x**0.5,
    "pow_-0.5": lambda x: x**-0.5,
    "pow_-1": lambda x: x**-1,
    "pow_0": lambda x: x**0,
    "pow_1.5": lambda x: x**1.5,
    "pow_5": lambda x: x**5,
    "sum": lambda x: x[:, None].sum(1),
    "mean": lambda x: x.reshape(-1, 3).mean(1),
    "amax": lambda x: x.reshape(-1, 3).amax(1),
    "amin": lambda x: x.reshape(-1, 3).amin(1),
    "prod": lambda x: x.reshape(-1, 3).prod(1),
    "softmax": lambda x: x.reshape(-1, 3).softmax(1),
    "log_softmax": lambda x: x.reshape(-1, 3).log_softmax(1),
    "safe_softmax": lambda x: aten._safe_softmax(x.reshape(-1, 3), 1),
    "max_pool": lambda x: F.max_pool1d(x.reshape(1, 1, -1), 3, 1, 1),
    "avg_pool": lambda x: F.avg_pool1d(x.reshape(1, 1, -1), 3, 1, 1),
}
OF_TWO = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "where": lambda x, y: torch.where(torch.arange(len(x)) % 2 == 0, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
}


# fmt: off
LOSES_NAN = {
    "amax", "amin", "clamp", "clamp_max", "clamp_min", "exp", "hardsigmoid", "hardtanh",
    "max_pool", "maximum", "minimum", "relu", "relu6",
}
# fmt: on
"""What may make a number of NaN in oneDNN, as the guide says."""

FINITE = {"gelu_tanh", "hardswish", "log_softmax", "safe_softmax", "softmax"}
"""What oneDNN computes in another way of infinities and numbers that overflow, too."""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
def test_nan_and_infinity(name, dtype):
    outcome = Outcome()
    special = list(SPECIAL)
    if name in LOSES_NAN:
        special = [n for n in special if not math.isnan(n)]
    if name in FINITE:
        special = [n for n in special if math.isfinite(n) and abs(n) < 80]
    if name in OF_ONE:
        # Each number is first, second and third of three, and in vectors and behind them.
        triples = [t for pair in itertools.product(special, special) for t in (*pair, 0.25)]
        same(OF_ONE[name], [torch.tensor(triples, dtype=dtype)], outcome, set())
    else:
        pairs = torch.tensor([*itertools.product(special, special)], dtype=dtype)
        same(OF_TWO[name], [pairs[:, 0].contiguous(), pairs[:, 1].contiguous()], outcome, set())
    assert outcome.in_onednn or outcome.left, name


@pytest.mark.parametrize("name", sorted(LOSES_NAN))
def test_nan_stays_if_asked_for(name):
    """NaN behind a product, with which oneDNN fuses what follows."""
    torch._dynamo.reset()
    weight = numbers(5, 5)
    bad = torch.ones(3, 5).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(NAN))

    def function(x):
        y = (x @ weight).flatten() * 0.1
        return OF_ONE[name](y) if name in OF_ONE else OF_TWO[name](y, torch.full_like(y, 0.5))

    backend = onednn_graph_py.torch.backend
    run = torch.compile(function, backend=backend, options={"nan": "torch"})
    with torch.no_grad():
        for x in (bad, bad.flip(0)):
            assert function(x).isnan().any()
            torch.testing.assert_close(run(x), function(x), equal_nan=True)
    (graph,) = onednn_graph_py.torch.report(function).graphs
    assert graph.regions


def compiled(function, tensors, dynamic):
    """Compare a function with itself by torch.compile, for all tensors and for more rows."""
    torch._dynamo.reset()
    gc.collect()
    made = torch.compile(
        function,
        backend=onednn_graph_py.torch.backend,
        options={"min_ops": 1, "threads": 1},
        dynamic=dynamic,
    )
    with torch.no_grad():
        for given in [tensors, *([torch.cat([t, t]) for t in tensors] for _ in range(dynamic))]:
            results, wanted = tensors_of(made(*given)), tensors_of(function(*given))
            for result, right in zip(results, wanted, strict=True):
                torch.testing.assert_close(result, right, rtol=1e-4, atol=1e-4)
    *_, report = onednn_graph_py.torch.report(function).graphs
    torch._dynamo.reset()
    return report


WEIGHT = numbers(5, 6)
DYNAMIC = {
    "view": lambda x: x.view(-1, 2, 12) + 1,
    "flatten": lambda x: x.reshape(x.shape[0], 4, 6).flatten(1) + 1,
    "permute": lambda x: x.view(-1, 4, 6).permute(0, 2, 1) + 1,
    "transpose": lambda x: x.t() + 1,
    "slice": lambda x: x[:, 2:20:3] + 1,
    "select": lambda x: x[:, 3] + 1,
    "expand": lambda x: x[:, None].expand(-1, 3, -1) + 1,
    "squeeze": lambda x: x[:, None].squeeze(1) + 1,
    "split": lambda x: [p + 1 for p in x.split(10, 1)],
    "unbind": lambda x: [p + 1 for p in x.view(-1, 4, 6).unbind(1)],
    "cat": lambda x: torch.cat([x, x + 1], 1) * 2,
    "stack": lambda x: torch.stack([x, x + 1], 1) * 2,
    "linear": lambda x: F.linear(x.view(-1, 4, 6), WEIGHT),
    "mm": lambda x: x.view(-1, 6) @ WEIGHT.t(),
    "bmm": lambda x: torch.bmm(x.view(-1, 4, 6), x.view(-1, 6, 4)),
    "addmm": lambda x: torch.addmm(WEIGHT[:, 0], x.view(-1, 6), WEIGHT.t()),
    "conv1d": lambda x: F.conv1d(x.view(-1, 3, 8), numbers(2, 3, 3)),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (24,)),
    "mean": lambda x: x.mean(1),
    "masks_of_heads": lambda x: torch.where((x[:, :1, None] > 0.3).expand(-1, 5, 1), x[:, None], 0),
    "masks": lambda x: [(x > 0).clone(), torch.where((x > 0.3).clone(), x, x.exp())],
}
ONCE_DIVIDED = {
    "selu": lambda x: F.celu(F.selu(x), 0.7),
    "rows_and_heads": lambda x: (
        x.view(-1, 2, 3, 4).permute(0, 2, 1, 3).reshape(x.shape[0] * 3, 8) + 1
    ),
    "batch_norm": lambda x: F.batch_norm(x, numbers(24) + 1, numbers(24) ** 2, None, numbers(24)),
    "roll": lambda x: x.roll((5, -3), (1, 0)) * 2,
    "gelu": lambda x: [
        x * 0.5 * (1 + torch.erf(x / 2**0.5)),
        0.7 * ((torch.erf(x * 0.5**0.5) + 1) * x) * x.exp(),
    ],
    "variance": lambda x: x + x.sum().var(0, correction=0) + x.sum().std(-1, correction=0),
    "glu": lambda x: F.glu(x.view(-1, 4, 6), 1),
    "addcmul": lambda x: torch.addcmul(x, x.sum(), x[:, :1].sum(1, keepdim=True), value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x.abs().amax(), x.exp(), value=-2),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[:, None, :, None] * numbers(4, 1, 6), 2) + 1,
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x[:, :1, None, None] * numbers(1, 4, 6), 2) + 1,
    "upsample": lambda x: F.interpolate(
        x[:, None, :, None] * numbers(4, 1, 6), scale_factor=(3, 2), mode="bilinear"
    ),
    "no_batch": lambda x: F.conv1d(x.t(), numbers(3, 24, 1)),
    "vector": lambda x: x @ numbers(24) + F.linear(x[0], numbers(2, 24)).sum(),
}
"""Functions of which nothing may stay in torch, whatever the sizes."""


@pytest.mark.parametrize("name", [*DYNAMIC, *ONCE_DIVIDED])
def test_unknown_sizes(name):
    function = (DYNAMIC | ONCE_DIVIDED)[name]
    report = compiled(function, [numbers(2, 24)], dynamic=True)
    assert report.regions, report
    assert name in DYNAMIC or not report.left, report
    assert all(r.failure is None for r in report.regions), report


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)), torch.arange(-3, 4)),
        (lambda x: x / 0 * (1 + torch.erf(x / 2**0.5)), numbers(5)),
        (lambda x: x * (1 + torch.erf(x / 0)), numbers(5)),
    ],
)
def test_products_with_erf_that_are_no_gelu(function, x):
    torch._dynamo.reset()
    run = torch.compile(function, backend="onednn_graph", options={"min_ops": 1})
    torch.testing.assert_close(run(x), function(x), equal_nan=True)


def test_what_torch_refuses_raises_torch_s_error():
    torch._dynamo.reset()
    run = torch.compile(lambda x: F.celu(x, 0.0), backend="onednn_graph", options={"min_ops": 1})
    with pytest.raises(RuntimeError, match="alpha"):
        run(numbers(5))


THROUGH_DYNAMO = [
    "nn.functional.gelu",
    "add",
    "where",
    "nn.functional.linear",
    "baddbmm",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose1d",
    "nn.functional.instance_norm",
    "nn.functional.interpolate",
    "nn.functional.prelu",
    "nn.functional.max_pool2d",
    "nn.functional.rms_norm",
    "sum",
    "chunk",
]


@pytest.mark.parametrize("name", THROUGH_DYNAMO)
def test_samples_by_torch_compile(name):
    function, tensors, _ = next(iter(samples_of(name, torch.float32)))
    report = compiled(lambda *given: function(*given), tensors, dynamic=False)
    assert all(r.failure is None for r in report.regions), report

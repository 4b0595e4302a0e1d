"""What the suites of torch's other compilers test, by ours: all is right, most runs in oneDNN.

The kinds of programs are those of Inductor's common cases and its oneDNN patterns, of torchao's
fusions for x86, and of torch-mlir's end-to-end cases; the programs are ours.
"""

import gc
import itertools

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
front = pytest.importorskip("onednn_graph_py.torch")

F = torch.nn.functional

pytestmark = [
    pytest.mark.slow,
    # What torch warns of is its own; that a case stays in torch is counted here.
    pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning"),
    # Where the only product of a function stays in torch.
    pytest.mark.filterwarnings("ignore:.*of the arithmetic runs in oneDNN:UserWarning"),
]

ROWS = (5, 7)
"""The sizes of an unknown first dim."""


def drawn(shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


W = {n: drawn(n, seed=3) for n in ((6, 12), (12,), (6,), (4, 6, 3), (4, 6, 3, 2), (8, 6, 1, 1))}
TABLE = drawn((11, 6))
PLACES = torch.tensor([3, 0, 4, 4, 1])

UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp exp2 expm1 floor frac
i0 lgamma log log10 log1p log2 logit neg positive reciprocal round rsqrt sgn sigmoid sign sin sinc
sinh sqrt square tan tanh trunc isnan isinf isfinite signbit logical_not nan_to_num deg2rad
"""
ACTIVATIONS = """
relu relu6 gelu silu mish elu selu celu hardswish hardsigmoid hardtanh leaky_relu logsigmoid
softplus softsign tanhshrink hardshrink softshrink
"""
BINARY = """
add sub mul div atan2 maximum minimum fmax fmin fmod remainder floor_divide true_divide hypot
copysign eq ne lt le gt ge logical_and logical_or logical_xor rsub xlogy logaddexp heaviside
nextafter
"""
REDUCTIONS = """
sum mean amax amin prod std var any all argmax argmin logsumexp median cumsum cumprod
"""

COMMON = {
    "unary": {n: lambda x, n=n: getattr(torch, n)(x.abs() * 0.4 + 0.1) for n in UNARY.split()},
    "activation": {n: lambda x, n=n: getattr(F, n)(x) for n in ACTIVATIONS.split()},
    "binary": {n: lambda x, n=n: getattr(torch, n)(x, 0.7 - x * x) for n in BINARY.split()},
    "broadcast": {
        n: lambda x, n=n: getattr(torch, n)(x, W[(12,)])
        for n in ["add", "sub", "mul", "div", "maximum"]
    },
    "scalar": {
        "add": lambda x: torch.add(x, 2, alpha=3),
        "rsub": lambda x: 1.5 - x,
        "div": lambda x: x / 3,
        "rdiv": lambda x: 2 / (x.abs() + 1),
        "floor": lambda x: x // 0.7,
        "pow": lambda x: x**3,
        "rpow": lambda x: 2**x,
        "clamp": lambda x: x.clamp(-0.3, 0.9),
        "threshold": lambda x: F.threshold(x, 0.1, 20),
        "lerp": lambda x: torch.lerp(x, x.exp(), 0.3),
        "addcmul": lambda x: torch.addcmul(x, x, x.exp(), value=0.5),
        "addcdiv": lambda x: torch.addcdiv(x, x, x.exp(), value=0.5),
        "where": lambda x: torch.where(x > 0.2, x, 0.5 * x),
        "masked_fill": lambda x: x.masked_fill(x < 0, -3.0),
        "glu": lambda x: F.glu(x, 1),
        "cast": lambda x: (x * 3).to(torch.int32).to(torch.float32) + 1,
    },
    "reduction": {
        f"{n} {dim}": lambda x, n=n, dim=dim: getattr(torch, n)(x * 0.5, dim)
        for n, dim in itertools.product(REDUCTIONS.split(), (0, 1))
    },
    "whole": {
        "sum": lambda x: x.sum(),
        "mean keepdim": lambda x: x.mean((0, 1), keepdim=True),
        "norm": lambda x: x.norm(),
        "norm 1": lambda x: torch.linalg.vector_norm(x, 1, 1),
        "var_mean": lambda x: torch.var_mean(x, 1),
        "max values": lambda x: x.max(1).values,
        "topk": lambda x: x.topk(3).values,
        "sort": lambda x: x.sort(1).values,
        "softmax 0": lambda x: x.softmax(0),
        "softmax 1": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "softmin": lambda x: F.softmin(x, 1),
        "cross_entropy": lambda x: F.cross_entropy(x, x.argmax(1)),
        "mse": lambda x: F.mse_loss(x, x.exp()),
        "cosine": lambda x: F.cosine_similarity(x, x.exp(), 1),
        "normalize": lambda x: F.normalize(x, dim=1),
    },
    "view": {
        "view": lambda x: x.view(-1, 3, 4) + 1,
        "transpose": lambda x: x.t() * 2,
        "permute": lambda x: x.view(-1, 3, 4).permute(2, 0, 1) * 2,
        "slice": lambda x: x[1:, 2:11:3] + 1,
        "negative": lambda x: x[:, -4:-1] + 1,
        "expand": lambda x: x[:, None].expand(-1, 3, -1) + 1,
        "flatten": lambda x: x.view(-1, 3, 4).flatten(1) + 1,
        "unfold": lambda x: x.unfold(1, 5, 3) + 1,
        "squeeze": lambda x: x[:, None].squeeze(1) * 2,
        "split": lambda x: [p + 1 for p in x.split((5, 7), 1)],
        "chunk": lambda x: [p * 2 for p in x.chunk(3, 1)],
        "unbind": lambda x: [p * 2 for p in x.view(-1, 3, 4).unbind(1)],
        "cat": lambda x: torch.cat([x, x.exp(), x[:1]], 0),
        "stack": lambda x: torch.stack([x, x.exp()], 1),
        "roll": lambda x: x.roll(5, 1) + 1,
        "flip": lambda x: x.flip(0) + 1,
        "repeat": lambda x: x.repeat(2, 3) + 1,
        "pad": lambda x: F.pad(x, (1, 2)) + 1,
        "tril": lambda x: x.tril(1) + 1,
        "diagonal": lambda x: x[:5, :5].diagonal() + 1,
        "pixel_shuffle": lambda x: F.pixel_shuffle(x.view(-1, 12, 1, 1), 2) + 1,
        "strided": lambda x: x.as_strided((3, 5), (7, 2)) + 1,
        "meshgrid": lambda x: torch.stack(torch.meshgrid(x[0], x[1, :5], indexing="ij")) + 1,
    },
    "index": {
        "rows": lambda x: x[PLACES] + 1,
        "two": lambda x: x[PLACES, PLACES + 2] + 1,
        "none": lambda x: x[:, None, PLACES] + 1,
        "index_select": lambda x: x.index_select(1, PLACES) + 1,
        "gather": lambda x: x.gather(1, PLACES.expand(5, 5)[:3]) + 1,
        "scatter": lambda x: x.scatter(1, PLACES[None, :3] + 1, 0.5) * 2,
        "scatter_add": lambda x: x.scatter_add(1, PLACES.expand(5, 5), x[:5, :5]) * 2,
        "index_add": lambda x: x.index_add(1, PLACES, x[:, :5]) * 2,
        "index_put": lambda x: x.index_put((PLACES,), x[:5], accumulate=True) * 2,
        "index_fill": lambda x: x.index_fill(1, PLACES, 2.0) * 2,
        "take": lambda x: x.take(PLACES) + 1,
        "one_hot": lambda x: F.one_hot(PLACES, 12) * x[:5],
        "embedding": lambda x: F.embedding(x.argmax(1) % 11, TABLE) * 2,
        "bag": lambda x: F.embedding_bag(PLACES[None] % 11, TABLE) + x[:1, :6],
        "searchsorted": lambda x: torch.searchsorted(x[0].sort().values, x) * 2,
        "write": lambda x: x.clone().index_copy_(0, PLACES[:2], x[:2].exp()) * 2,
        "in place": lambda x: x.clone().add_(1).mul_(x).relu_(),
        "setitem": lambda x: torch.cat([x * 2, x.clone().fill_(3)], 1),
    },
    "product": {
        "linear": lambda x: F.linear(x, W[(6, 12)], W[(6,)]),
        "no bias": lambda x: F.linear(x, W[(6, 12)]),
        "3-D": lambda x: F.linear(x.view(1, -1, 12), W[(6, 12)], W[(6,)]),
        "mm": lambda x: x @ W[(6, 12)].t(),
        "own": lambda x: x @ x.t(),
        "mv": lambda x: x @ W[(12,)],
        "dot": lambda x: x[0] @ x[1],
        "outer": lambda x: torch.outer(x[0], x[1]),
        "bmm": lambda x: torch.bmm(x.view(-1, 3, 4), x.view(-1, 4, 3)),
        "addmm": lambda x: torch.addmm(W[(6,)], x, W[(6, 12)].t(), beta=0.5, alpha=2),
        "baddbmm": lambda x: torch.baddbmm(x[:, :1, None], x.view(-1, 3, 4), x.view(-1, 4, 3)),
        "einsum": lambda x: torch.einsum("bij,bkj->bik", x.view(-1, 3, 4), x.view(-1, 3, 4)),
        "bilinear": lambda x: F.bilinear(x[:, :6], x[:, 6:9], W[(4, 6, 3)]),
        "kron": lambda x: torch.kron(x[:2, :2], x[:1, :3]),
        "cdist": lambda x: torch.cdist(x, x.flip(0)),
        "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, -1, 3, 4)] * 3),
        "causal": lambda x: F.scaled_dot_product_attention(
            *[x.view(1, 3, -1, 4)] * 3, is_causal=True
        ),
    },
    "norm": {
        "layer": lambda x: F.layer_norm(x, (12,), W[(12,)], W[(12,)] + 1),
        "layer 2": lambda x: F.layer_norm(x.view(-1, 3, 4), (3, 4)),
        "rms": lambda x: F.rms_norm(x, (12,), W[(12,)]),
        "group": lambda x: F.group_norm(x.view(-1, 6, 2), 3, W[(6,)], W[(6,)]),
        "instance": lambda x: F.instance_norm(x.view(-1, 3, 4)),
        "batch": lambda x: F.batch_norm(x, W[(12,)], W[(12,)] ** 2 + 0.1, W[(12,)]),
        "batch trained": lambda x: F.batch_norm(x, None, None, training=True),
        "local response": lambda x: F.local_response_norm(x.view(-1, 6, 2), 3),
        "dropout": lambda x: F.dropout(x, 0.3, training=False) + 1,
        "alpha dropout": lambda x: F.alpha_dropout(x, 0.3) + 1,
    },
    "window": {
        "conv1d": lambda x: F.conv1d(x.view(-1, 6, 2), W[(4, 6, 3)], padding=1),
        "conv1d same": lambda x: F.conv1d(x.view(1, 6, -1), W[(4, 6, 3)], padding="same"),
        "conv2d": lambda x: F.conv2d(x.view(1, 6, -1, 2), W[(4, 6, 3, 2)], stride=2, padding=1),
        "dilated": lambda x: F.conv2d(
            x.view(1, 6, -1, 2), W[(4, 6, 3, 2)], dilation=(1, 2), padding=(0, 2)
        ),
        "pointwise": lambda x: F.conv2d(x.view(-1, 6, 2, 1), W[(8, 6, 1, 1)]),
        "depthwise": lambda x: F.conv1d(x.view(-1, 6, 2), W[(12,)].view(6, 1, 2), groups=6),
        "conv3d": lambda x: F.conv3d(x.view(-1, 3, 2, 2, 1), W[(12,)].view(2, 3, 2, 1, 1)),
        "transposed": lambda x: F.conv_transpose1d(x.view(-1, 4, 3), W[(4, 6, 3)], stride=2),
        "transposed 2d": lambda x: F.conv_transpose2d(
            x.view(-1, 4, 3, 1), W[(4, 6, 3, 2)], stride=2, padding=1, output_padding=1
        ),
        "max 1d": lambda x: F.max_pool1d(x[:, None], 3, 2, 1),
        "max 2d": lambda x: F.max_pool2d(x.view(-1, 1, 3, 4), (2, 3), (1, 2)),
        "ceil": lambda x: F.max_pool2d(x.view(-1, 1, 3, 4), 2, 2, ceil_mode=True),
        "places": lambda x: F.max_pool2d(x.view(-1, 1, 3, 4), 2, return_indices=True)[0],
        "average": lambda x: F.avg_pool2d(x.view(-1, 1, 3, 4), 2, 1, 1, count_include_pad=False),
        "average ceil": lambda x: F.avg_pool1d(x[:, None], 5, 3, 2, ceil_mode=True),
        "adaptive": lambda x: F.adaptive_avg_pool2d(x.view(-1, 1, 3, 4), 1),
        "adaptive 5": lambda x: F.adaptive_avg_pool1d(x[:, None], 5),
        "adaptive max": lambda x: F.adaptive_max_pool1d(x[:, None], 4),
        "power": lambda x: F.lp_pool1d(x[:, None].abs(), 2, 3),
        "unfold": lambda x: F.unfold(x.view(-1, 1, 3, 4), 2) + 1,
        "nearest": lambda x: F.interpolate(x.view(-1, 1, 3, 4), scale_factor=2) + 1,
        "bilinear": lambda x: F.interpolate(x.view(-1, 1, 3, 4), scale_factor=2, mode="bilinear"),
        "grid": lambda x: F.grid_sample(
            x.view(-1, 2, 3, 2), x.view(-1, 2, 3, 2), align_corners=False
        ),
        "affine": lambda x: F.affine_grid(x[:1, :6].view(1, 2, 3), (1, 1, 3, 4), True) * 2,
    },
}

SPATIAL = ["linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d"]
AFTER = {
    **{
        n: getattr(F, n)
        for n in ["relu", "relu6", "gelu", "silu", "hardswish", "hardsigmoid", "elu", "mish"]
    },
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "leaky": lambda y: F.leaky_relu(y, 0.1),
    "hardtanh": lambda y: F.hardtanh(y, -0.5, 4),
    "gelu tanh": lambda y: F.gelu(y, approximate="tanh"),
    "swish by hand": lambda y: y * torch.sigmoid(y),
    "hardswish by hand": lambda y: y * F.relu6(y + 3) / 6,
    "gelu by hand": lambda y: y * 0.5 * (1 + torch.erf(y * 0.7071067811865476)),
    "scaled": lambda y: y * 0.3,
    "squared": lambda y: y.square(),
}
JOINED = {
    "add": lambda y, z: y + z,
    "add other": lambda y, z: z + y,
    "sub": lambda y, z: y - z,
    "mul": lambda y, z: y * z,
    "max": torch.maximum,
    "add relu": lambda y, z: (y + z).relu(),
    "relu add": lambda y, z: y.relu() + z,
    "add twice": lambda y, z: y + z + z,
    "add silu": lambda y, z: F.silu(y + z),
}


SEVERAL = {"gelu tanh", "gelu by hand", "add silu"}
"""Those that the oneDNN of 3.7 runs in more than one partition."""

STAY = {
    "unary": """
        acos acosh asin asinh atan atanh ceil cos cosh digamma erf erfc erfinv exp2 expm1 floor frac
        i0 lgamma log10 log1p log2 logit sgn sign sin sinc sinh tan trunc isnan isinf isfinite
        signbit logical_not nan_to_num deg2rad
    """,
    "activation": "hardshrink softshrink",
    "binary": """
        atan2 fmax fmin fmod remainder floor_divide hypot copysign eq ne lt le gt ge logical_and
        logical_or logical_xor xlogy logaddexp heaviside nextafter
    """,
    "scalar": "cast floor glu masked_fill rpow threshold where",
    "reduction": """
        any_0 any_1 all_0 all_1 argmax_0 argmax_1 argmin_0 argmin_1 logsumexp_0 logsumexp_1 median_0
        median_1 cumsum_0 cumsum_1 cumprod_0 cumprod_1
    """,
    "whole": "cosine cross_entropy max_values mse normalize sort topk var_mean",
    "product": "attention bilinear causal cdist",
    "view": "chunk diagonal flip meshgrid pad repeat strided tril unfold",
    "index": """
        bag embedding gather index_add index_fill index_put index_select none one_hot rows scatter
        scatter_add searchsorted setitem take two write
    """,
    "norm": "batch batch_trained layer_2 local_response",
    "window": """
        adaptive_5 adaptive_max affine average_ceil ceil conv1d_same conv2d dilated grid places
        power unfold
    """,
}
"""The cases that stay in torch, whole or in part; those of other families do not."""
UNKNOWN = {"reduction": "std_0 std_1 var_0 var_1"}
"""Further ones where the number of rows is unknown: they divide by one less than it."""


def layer(kind, bias):
    torch.manual_seed(3)
    if kind == "linear":
        return torch.nn.Linear(16, 24, bias=bias), (5, 16)
    rank = int(kind[-2])
    made = {
        "conv1d": torch.nn.Conv1d,
        "conv2d": torch.nn.Conv2d,
        "conv3d": torch.nn.Conv3d,
        "conv_transpose2d": torch.nn.ConvTranspose2d,
    }[kind](16, 24, 3, padding=1, bias=bias)
    return made, (2, 16, 6, 5, 4)[: rank + 2]


def tensors_of(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def compared(function, calls, dynamic=None, terms=64):
    """Compare a function with itself by our backend; return the graphs of the report.

    Numbers may differ by so many roundings of the largest one: the products here have at most 54
    terms, and each side rounds.
    """
    torch._dynamo.reset()
    gc.collect()
    run = torch.compile(
        function, backend="onednn_graph", options={"min_ops": 1, "threads": 1}, dynamic=dynamic
    )
    with torch.no_grad():
        for given in calls:
            for got, wanted in zip(
                tensors_of(run(*given)), tensors_of(function(*given)), strict=True
            ):
                assert got.shape == wanted.shape and got.dtype == wanted.dtype
                if not wanted.is_floating_point():
                    assert torch.equal(got, wanted)
                    continue
                size = float(wanted.nan_to_num(0, 0, 0).abs().max()) if wanted.numel() else 0.0
                allowed = 2 * terms * torch.finfo(wanted.dtype).eps / 2 * size
                torch.testing.assert_close(got, wanted, rtol=0, atol=allowed, equal_nan=True)
    graphs = front.report(run).graphs
    assert all(r.failure is None for g in graphs for r in g.regions)
    return graphs


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("family", COMMON)
def test_common_cases(family, dynamic, record_property):
    ran: dict[str, set[str]] = {"whole": set(), "in part": set(), "in torch": set()}
    wrong = {}
    for name, function in COMMON[family].items():
        try:
            graphs = compared(
                function, [(drawn((rows, 12)),) for rows in ROWS[: 1 + dynamic]], dynamic
            )
        except AssertionError as e:
            wrong[name] = str(e)
            continue
        some = any(g.regions for g in graphs)
        how = "in torch" if not some else "in part" if any(g.left for g in graphs) else "whole"
        ran[how].add(name)
    counts = {how: len(names) for how, names in ran.items()}
    record_property("ran", counts)
    print(f"{family}: {len(COMMON[family]) - len(wrong)} right, {len(wrong)} wrong, {counts}")
    assert not wrong
    stayed = {name.replace(" ", "_") for name in COMMON[family].keys() - ran["whole"]}
    known = f"{STAY.get(family, '')} {UNKNOWN.get(family, '') if dynamic else ''}"
    assert stayed <= {*known.split()}


@pytest.mark.parametrize("kind", SPATIAL)
def test_what_follows_a_product_runs_in_its_partition(kind, record_property):
    counts = {}
    for name, after in AFTER.items():
        made, shape = layer(kind, bias=len(name) % 2 == 0)
        (graph,) = compared(lambda x, made=made, after=after: after(made(x)), [(drawn(shape),)])
        assert not graph.left, name
        counts[name] = sum(r.partitions for r in graph.regions)
    for name, joined in JOINED.items():
        made, shape = layer(kind, bias=len(name) % 2 == 0)
        other = drawn(made(drawn(shape)).shape, seed=5)
        (graph,) = compared(
            lambda x, z, made=made, joined=joined: joined(made(x), z), [(drawn(shape), other)]
        )
        assert not graph.left, name
        counts[name] = sum(r.partitions for r in graph.regions)
    record_property("partitions", counts)
    if kind != "conv_transpose2d":  # behind whose bias 3.7 fuses little
        assert {name for name, n in counts.items() if n != 1} <= SEVERAL

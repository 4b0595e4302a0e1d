"""The NumPy functions of exported models, each beside torch's own."""

import importlib
import inspect

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.frontends import host_calls as host
from onednn_graph_py.model.building.sizes import Slot
from onednn_graph_py.model.checking.expected import compared

torch = pytest.importorskip("torch", reason="torch is not installed")
front = pytest.importorskip("onednn_graph_py.torch")
exported = pytest.importorskip("onednn_graph_py.torch.exported")
pytest.importorskip("transformers", reason="transformers is not installed")
from onednn_graph_py.torch.arrays import array_of, tensor_of  # noqa: E402

importlib.import_module("transformers.integrations.moe")  # makes an op of its own

F = torch.nn.functional
TABLE = torch.arange(40.0).reshape(10, 4)

CASES = {
    "add": lambda i, x: torch.add(i, i, alpha=3),
    "addcmul": lambda i, x: torch.addcmul(i, i, i, value=2),
    "sub": lambda i, x: i - 2,
    "mul": lambda i, x: i * i,
    "neg": lambda i, x: -i,
    "sign": lambda i, x: (x / x.abs()).sign(),
    "ceil": lambda i, x: (x * 3).ceil(),
    "floor": lambda i, x: (x * 3).floor(),
    "abs": lambda i, x: (i - 4).abs(),
    "eq": lambda i, x: i == 3,
    "ne": lambda i, x: i != 3,
    "lt": lambda i, x: i < 3,
    "le": lambda i, x: i <= 3,
    "gt": lambda i, x: i > 3,
    "ge": lambda i, x: i >= 3,
    "logical_not": lambda i, x: torch.logical_not(i > 3),
    "logical_and": lambda i, x: torch.logical_and(i > 3, i < 5),
    "logical_or": lambda i, x: torch.logical_or(i > 3, i < 2),
    "bitwise_not": lambda i, x: torch.bitwise_not(i > 3),
    "bitwise_and": lambda i, x: torch.bitwise_and(i > 3, i < 5),
    "bitwise_or": lambda i, x: torch.bitwise_or(i > 3, i < 2),
    "__and__": lambda i, x: torch.ops.aten.__and__.Tensor(i > 3, i < 5),
    "__or__": lambda i, x: torch.ops.aten.__or__.Tensor(i > 3, i < 2),
    "bitwise_xor": lambda i, x: torch.bitwise_xor(i, 5),
    "minimum": lambda i, x: torch.minimum(i, i * 2 - 4),
    "maximum": lambda i, x: torch.maximum(i, i * 2 - 4),
    "where": lambda i, x: torch.where(i > 3, i, i * 2),
    "sin": lambda i, x: x.sin(),
    "cos": lambda i, x: x.cos(),
    "log": lambda i, x: (i + 1).log(),
    "log1p": lambda i, x: x.abs().log1p(),
    "log2": lambda i, x: (i + 1).log2(),
    "expm1": lambda i, x: x.expm1(),
    "trunc": lambda i, x: (x * 3).trunc(),
    "fmod": lambda i, x: torch.fmod(i - 4, 3),
    "remainder": lambda i, x: (i - 4) % 3,
    "isnan": lambda i, x: (x / x.abs()).isnan(),
    "clamp": lambda i, x: i.clamp(1, 4),
    "cumsum": lambda i, x: (x * 3).cumsum(1, dtype=torch.int64) + i[0, 3].cumsum(0),
    "index": lambda i, x: x[i[0] % 2],
    "index_select": lambda i, x: x.index_select(1, i[1, 2] % 3),
    "index_put": lambda i, x: (
        i.index_put((i[0, :2] % 2,), i[1]) + i.index_put((i[0] % 2, i[1] % 6), i[0], True)
    ),
    "scatter": lambda i, x: (
        i.scatter(1, i[:, 1:4] % 6, 9)
        + i.scatter(1, i.argsort(1), i[:, [3, 1, 0, 5, 4, 2]] * 2)
        - i.scatter(-1, i[:, 1:4] % 6, 3, reduce="multiply")
    ),
    "scatter_add": lambda i, x: (
        i.scatter_add(1, i[:, 1:5] % 3, i) + i[0, 3].scatter_add(0, i[0, 0] * 0, i[1, 2])
    ),
    "histc": lambda i, x: x.histc(5, -1, 2) + x.histc(5) + (x * 0).histc(5),
    "bucketize": lambda i, x: torch.bucketize(i, i[0]) + torch.bucketize(x, x[0, :5], right=True),
    "reciprocal": lambda i, x: (i + 2).reciprocal(),
    "roll": lambda i, x: i.roll((7, -2), (0, 1)) - i.roll(3),
    "empty_permuted": lambda i, x: torch.empty_permuted((i.shape[0], 3), (1, 0)).zero_(),
    "gather": lambda i, x: x.gather(0, i[:, :2] % 2),
    "masked_fill": lambda i, x: i.masked_fill(i > 3, -2),
    "grouped_mm_fallback": lambda i, x: torch.ops.transformers.grouped_mm_fallback(
        x[:, :2], torch.stack([x[:2, 2:5], x[:2, 3:] * 2]), torch.tensor([1, 2])
    ),
    "_grouped_mm": lambda i, x: torch._grouped_mm(
        torch.cat([i, i], 1)[:, :8].bfloat16(),
        torch.arange(128).view(2, 8, 8).bfloat16(),
        offs=(torch.tensor([1, 2]) * (i.shape[0] // 2)).int(),
    ).float(),
    "masked_scatter": lambda i, x: i.masked_scatter(i[1] > 4, i * 2 - 3),
    "embedding": lambda i, x: torch.nn.functional.embedding(i, TABLE),
    "cat": lambda i, x: torch.cat([i, i * 2, i.new_empty(0)], 1),
    "argmax": lambda i, x: x.argmax(1),
    "max": lambda i, x: (x / x.abs()).max(1)[1],
    "min": lambda i, x: (x / x.abs()).min(1, keepdim=True)[1] + i.min(),
    "amax": lambda i, x: i.amax(0),
    "amin": lambda i, x: i.amin((0, 1), keepdim=True),
    "topk": lambda i, x: (x / x.abs() + x).topk(4, 1)[1],
    "sort": lambda i, x: (
        (i % 3).sort(dim=1, descending=True, stable=True)[1] * i.sort(0)[0] + i[1, 2].sort()[0]
    ),
    "adaptive_avg_pool1d": lambda i, x: F.adaptive_avg_pool1d(x, 4),
    "adaptive_avg_pool3d": lambda i, x: F.adaptive_avg_pool3d(x.view(-1, 1, 2, 3)[None], (1, 2, 2)),
    "erf": lambda i, x: x.erf(),
    "glu": lambda i, x: F.glu(i.to(torch.float64)),
    "split": lambda i, x: torch.cat([i, i + 1]).chunk(2)[1],
    "split_with_sizes": lambda i, x: torch.cat([i, i + 1]).split([i.shape[0]] * 2)[1],
    "stack": lambda i, x: torch.stack([i, i + 1], 1),
    "adaptive_avg_pool2d": lambda i, x: F.adaptive_avg_pool2d(x[None], (2, 4)),
    "any": lambda i, x: (i > 4).any(1),
    "all": lambda i, x: (i > 0).all(1, keepdim=True),
    "_to_copy": lambda i, x: i.to(torch.float32) * 2,
    "type_as": lambda i, x: x.type_as(i),
    "arange": lambda i, x: i + torch.arange(1, 2 * i.shape[0], 2)[:, None],
    "full": lambda i, x: i + torch.full((i.shape[0], 1), 3),
    "zeros": lambda i, x: i + torch.zeros((i.shape[0], 1), dtype=torch.int64),
    "ones": lambda i, x: i + torch.ones((i.shape[0], 1), dtype=torch.int64),
    "new_full": lambda i, x: i.new_full((i.shape[0], 3), 5),
    "new_zeros": lambda i, x: i.new_zeros((i.shape[0], 3)),
    "new_ones": lambda i, x: i.new_ones((i.shape[0], 3)),
    "full_like": lambda i, x: torch.full_like(i, 0.5, dtype=torch.float32),
    "zeros_like": lambda i, x: torch.zeros_like(i),
    "ones_like": lambda i, x: torch.ones_like(i),
    "view": lambda i, x: i.view(-1),
    "_unsafe_view": lambda i, x: torch.ops.aten._unsafe_view(i, [-1, 3]),
    "slice": lambda i, x: i[i.shape[0] - 1 :],
    "select": lambda i, x: i.select(1, i.shape[0] // 2),
    "expand": lambda i, x: i[0].expand(3 * i.shape[0] + 1, -1),
    "copy": lambda i, x: torch.ops.aten.copy(i.new_zeros(x.shape), x[0] > 1),
    "slice_scatter": lambda i, x: torch.slice_scatter(i, i[:, :2] + 1, 1, 1, -1, 2),
    "select_scatter": lambda i, x: torch.select_scatter(x, x[:, 0] > 1, 1, -2),
    "pad": lambda i, x: F.pad(i, (1, -2, 0, 3), value=4),
    "unfold": lambda i, x: i.unfold(-1, 3, 2),
    "diff": lambda i, x: torch.diff(i, dim=1, prepend=i[:, :1] - 3, append=i[:, 1:2]),
    "linalg_vector_norm": lambda i, x: torch.linalg.vector_norm(x, 3, dim=1, keepdim=True),
    "pow": lambda i, x: i**3,
    "rsub": lambda i, x: torch.rsub(i, 3),
    "div": lambda i, x: torch.div(i - 4, 3, rounding_mode="floor"),
    "repeat": lambda i, x: i.repeat(2, 3),
    "flip": lambda i, x: i.flip(1),
    "exp": lambda i, x: i.exp(),
    "sum": lambda i, x: (x * 3).sum(1, dtype=torch.int64) + i.sum([]),
    "triu": lambda i, x: i.triu(1),
    "tril": lambda i, x: i.tril(-1),
    "upsample_nearest2d": lambda i, x: F.interpolate(x[None, None], size=(5, 8)),
    "upsample_bilinear2d": lambda i, x: F.interpolate(
        x[None, None], size=(5, 4), mode="bilinear", align_corners=True
    ),
    "grid_sampler_2d": lambda i, x: F.grid_sample(
        x[None, None], x.view(1, -1, 3, 2) * 0.7, align_corners=False
    ),
    "grid_sampler_3d": lambda i, x: F.grid_sample(
        x[None, None, None], x.view(1, -1, 1, 2, 3) * 0.7, align_corners=True
    ),
    "scalar_tensor": lambda i, x: torch.tensor(i.shape[0]) * 2,
    "view_as_real": lambda i, x: torch.view_as_real(torch.fft.fft(x, norm="ortho")),
    **{
        f"fft_{n}": lambda i, x, n=n: getattr(torch.fft, n)(
            x.view(-1, 2, 3), dim=-1 if n.endswith("t") else (-2, -1)
        )
        for n in host.FOURIER.split()
    },
}
"""A call of each function, of integers (2, 6) from 0 to 7 and numbers with a 0 among them."""


NEED_UNKNOWN = {
    "arange",
    "full",
    "zeros",
    "ones",
    "empty_permuted",
    "slice",
    "select",
    "expand",
    "scalar_tensor",
    "split",
    "split_with_sizes",
}
"""Those that are constants or views if all sizes are known."""


class Module(torch.nn.Module):
    """Several cases at once, as an export takes longer than what it exports."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names

    def forward(self, i, x):
        return {name: CASES[name](i, x) for name in self.names}


TOGETHER = [[*CASES][n::6] for n in range(6)]


def test_each_function_has_a_case():
    assert set(host.HOST) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_function_takes_what_torch_takes(name):
    function = host.HOST[name]
    packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.transformers, name)
    for schema in (getattr(packet, o)._schema for o in packet.overloads()):
        given = [a for a in schema.arguments if a.name not in exported.NO_NUMBERS]
        if str(schema.arguments[0].type) != "Tensor" or any(
            a.is_out or (str(a.type) == "int" and a.name == "dtype") for a in schema.arguments
        ):
            continue
        positional = [0 for a in given if not a.kwarg_only]
        if isinstance(function, np.ufunc):
            assert (len(positional), len(given)) == (function.nin,) * 2
        else:
            inspect.signature(function).bind(
                *positional, **{a.name: 0 for a in given if a.kwarg_only}
            )


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("names", TOGETHER, ids=" ".join)
def test_functions(names, dynamic, tmp_path):
    if dynamic:
        # An index has a size of its own; torch can't prove how many parts there are.
        names = [n for n in names if n not in ("index", "split")]
    i = torch.tensor([[0, 1, 2, 3, 4, 5], [7, 6, 5, 4, 3, 1]])
    x = torch.linspace(-2.0, 2.0, 10).reshape(2, 5)
    x = torch.cat([x, torch.zeros(2, 1)], 1)
    rows = torch.export.Dim("rows", min=2, max=9)
    shapes = ({0: rows}, {0: rows}) if dynamic else None
    builder = front.trace(Module(names), (i, x), dynamic_shapes=shapes)
    run = {n.function.op for n in builder.nodes if getattr(n, "function", None)}
    assert set(names) - run <= (set() if dynamic else NEED_UNKNOWN)
    model = builder.compile()
    model.save(tmp_path / "model.og")
    loaded = og.load(tmp_path / "model.og")
    for times in (1, 2) if dynamic else (1,):
        given = i.repeat(times, 1), x.repeat(times, 1)
        arrays = [t.numpy() for t in given]
        for name, made, again in zip(names, model(*arrays), loaded(*arrays), strict=True):
            got, wanted = torch.from_numpy(made), CASES[name](*given)
            assert got.dtype == wanted.dtype, name
            torch.testing.assert_close(got, wanted, msg=lambda text, name=name: f"{name}: {text}")
            np.testing.assert_array_equal(again, made, err_msg=name)


@pytest.mark.parametrize(
    "name", ["embedding", "gather", "index_copy", "index_select", "scatter", "scatter_add"]
)
def test_indices_do_not_count_from_the_end(name):
    calls = {
        "embedding": lambda i, x: F.embedding(i, TABLE),
        "gather": lambda i, x: x.gather(1, i),
        "index_copy": lambda i, x: x.index_copy(1, i[0], x),
        "index_select": lambda i, x: x.index_select(1, i[0]),
        "scatter": lambda i, x: x.scatter(1, i, 3.0),
        "scatter_add": lambda i, x: x.scatter_add(1, i, x),
    }
    i, x = torch.tensor([[2, 0, 1], [1, 2, 0]]), torch.randn(2, 3)
    model, size = front.export(Calls(calls[name]), (i, x)), 10 if name == "embedding" else 3
    torch.testing.assert_close(torch.from_numpy(model(i.numpy(), x.numpy())), calls[name](i, x))
    op = name.removesuffix("_add")
    for wrong, message in (
        (-1, f"^{op}: indices must not be negative, got -1"),
        (size, f"index {size} is out of bounds"),
    ):
        given = i.clone()
        given[0, 1] = wrong
        with pytest.raises(IndexError, match=message):
            model(given.numpy(), x.numpy())


@pytest.mark.parametrize("name", ["div", "remainder", "fmod"])
def test_integers_are_not_divided_by_zero(name):
    options = {"rounding_mode": "floor"} if name == "div" else {}
    call = Calls(lambda i, x: (getattr(torch, name)(i, x, **options), 1 / x))
    i, x = torch.tensor([[7, -7, 5]]), torch.tensor([[2, 3, -4]])
    model = front.export(call, (i, x))
    for got, wanted in zip(model(i.numpy(), x.numpy()), call(i, x), strict=True):
        torch.testing.assert_close(torch.from_numpy(got), wanted)
    with pytest.raises(FloatingPointError, match=f"divide by zero .*\n.*op '{name}'"):
        model(i.numpy(), (x * 0).numpy())


def close_to_torch(name, args, options, wanted):
    """Compare a host step's results with torch's, or numbers that torch computed in f64."""
    arrays = []

    def slot(given):
        if torch.is_tensor(given):
            arrays.append(array_of(given))
            return Slot(len(arrays) - 1)
        return tuple(map(slot, given)) if isinstance(given, tuple) else given

    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    results = tuple((tuple(w.shape), exported._dtype(w)) for w in wanted)
    made = host.HostCall(name, tuple(map(slot, args)), options, (), results)(*arrays)
    got = tuple(tensor_of(m.copy()) for m in made)
    torch.testing.assert_close(got, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "adaptive_avg_pool2d",
        "add",
        "addcmul",
        "cumsum",
        "grouped_mm_fallback",
        "index_put",
        "scatter_add",
        "sum",
        "upsample_bilinear2d",
    ],
)
def test_numbers_of_16_bits_are_added_up_in_f32(name, dtype):
    generator = torch.Generator().manual_seed(8)
    x = torch.rand(2, 350, 7, generator=generator).to(dtype)
    i = torch.randint(5, x.shape, generator=generator)
    args = {
        "adaptive_avg_pool2d": (x, (2, 3)),
        "add": (x, -x.flip(1)),
        "addcmul": (x, x.flip(1), -x),
        "cumsum": (x, 1),
        "grouped_mm_fallback": (x[0].T, x.flip(2), torch.tensor([2, 7])),
        "index_put": (x, (None, i[0, :, 0]), x, True),
        "scatter_add": (x, 1, i, x),
        "sum": (x, (0, 1)),
        "upsample_bilinear2d": (x[None], (200, 5), False),
    }[name]
    options = {"add": {"alpha": 0.75}, "addcmul": {"value": 0.75}}.get(name, {})
    packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.transformers, name)
    wide = [a.double() if torch.is_tensor(a) and a.is_floating_point() else a for a in args]
    close_to_torch(name, args, options, packet(*wide, **options).to(dtype))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("name", ["cos", "exp", "expm1", "log", "log1p", "log2", "sign", "sin"])
def test_functions_of_integers_are_computed_in_f32(name, dtype):
    x = torch.tensor([0, 1, 3, 19, 77]).to(dtype)
    close_to_torch(name, (x,), {}, getattr(torch, name)(x))


@pytest.mark.parametrize("largest", [True, False])
def test_nan_is_the_largest_number_of_16_bits(largest):
    x = torch.tensor([2, torch.nan, -3, 7, torch.nan, 1, torch.inf], dtype=torch.bfloat16)
    for name, args in (("topk", (x, 4, 0, largest)), ("sort", (x, 0, largest))):
        numbers, places = getattr(torch, name)(*args)
        close_to_torch(name, args, {}, (numbers, places) if name == "sort" else (numbers,))


@pytest.mark.parametrize(
    "name, args",
    [("max", (0,)), ("min", (-1,)), ("amax", ([0],)), ("sum", ([0],)), ("sort", (0,)),
     ("cumsum", (0,)), ("gather", (0, torch.tensor([0]))), ("topk", (1, 0))],
)  # fmt: skip
def test_scalars_have_a_dim(name, args):
    x = torch.tensor(2.5)
    wanted = getattr(torch.ops.aten, name)(x, *args)
    close_to_torch(name, (x, *args), {}, tuple(wanted) if name in ("max", "min") else wanted)


def test_an_empty_index_may_have_other_dims():
    x, index = torch.rand(5), torch.empty(2, 0, dtype=torch.int64)
    close_to_torch("gather", (x, 0, index), {}, x.gather(0, index))


def test_quotients_of_large_integers():
    x, y = torch.tensor([2**62 + 3, -(2**62) - 3, 7, -7]), torch.tensor([1, 1, 3, 3])
    options = {"rounding_mode": "trunc"}
    close_to_torch("div", (x, y), options, torch.div(x, y, **options))


@pytest.mark.parametrize(
    "name, shapes, error",
    [
        ("gather", ((1, 4), (2, 3)), IndexError),
        ("scatter", ((4, 5), (4, 3), (1, 3)), IndexError),
        ("masked_scatter", ((3, 2), (1,)), IndexError),
        ("slice_scatter", ((5, 4), (1, 4)), ValueError),
        ("select_scatter", ((5, 4), (1,)), ValueError),
    ],
)
def test_nothing_is_broadcast_that_torch_does_not_broadcast(name, shapes, error):
    x, *rest = (torch.ones(shape) for shape in shapes)
    args = {
        "gather": lambda index: (1, index.long()),
        "scatter": lambda index, source: (1, index.long() * torch.arange(3), source),
        "masked_scatter": lambda source: (x > 0, source),
        "slice_scatter": lambda values: (values, 0, 1, 4),
        "select_scatter": lambda values: (values, 1, 2),
    }[name](*rest)
    with pytest.raises((RuntimeError, IndexError)):
        getattr(torch.ops.aten, name)(x, *args)
    with pytest.raises(error, match=r"out of bounds|expected the shape \(.*\), got \(1,"):
        close_to_torch(name, (x, *args), {}, x)


def test_infinity_less_infinity_is_told_to_nobody():
    x = torch.tensor([torch.inf, 1.5], dtype=torch.float64)
    run = front.export(Calls(lambda x: (x - x, x.to(torch.int32))), (x,))
    made, whole = run(x.numpy())  # a warning is an error here
    np.testing.assert_array_equal(made, [np.nan, 0])
    assert whole[1] == 1


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode):
    function = Calls(lambda x: F.pad(x, (2, 1, 0, 1), mode=mode))
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    got = front.export(function, (x,))(x.numpy())
    torch.testing.assert_close(torch.from_numpy(got), function(x))


@pytest.mark.parametrize("factors", [(1.3, 0.6), (2.7, 1.0), (0.45, 3.3)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_factors_that_are_not_whole(mode, factors):
    function = Calls(lambda x: F.interpolate(x, scale_factor=factors, mode=mode))
    x = torch.arange(210.0).reshape(1, 2, 7, 15)
    got = front.export(function, (x,))(x.numpy())
    torch.testing.assert_close(torch.from_numpy(got), function(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling_between_elements(mode, padding, align):
    function = Calls(
        lambda *given: F.grid_sample(*given, mode=mode, padding_mode=padding, align_corners=align)
    )
    generator = torch.Generator().manual_seed(5)
    for sizes in ((4, 7), (1, 5), (3, 4, 5))[: 2 if mode == "bicubic" else 3]:
        x = torch.randn(2, 3, *sizes, generator=generator)
        x[0, 1, :, 0] = torch.inf if padding == "zeros" and mode == "nearest" else 2
        grid = 5 * torch.rand(2, *range(3, 3 + len(sizes)), len(sizes), generator=generator) - 2.5
        if padding != "reflection":  # for which f32 has no digits left so far away
            grid[0, 0, 0] = torch.tensor([1e12, -1e12, 1.0])[: len(sizes)]
        got = front.export(function, (x, grid))(x.numpy(), grid.numpy())
        torch.testing.assert_close(torch.from_numpy(got), function(x, grid), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_sampling_of_nothing(mode):
    function = host.HOST["grid_sampler_2d"]
    x, grid = np.ones((2, 3, 4, 5), np.float32), np.zeros((2, 6, 7, 2), np.float32)
    assert function(x[:0], grid[:0], mode).shape == (0, 3, 6, 7)
    assert function(x[:, :0], grid, mode).shape == (2, 0, 6, 7)
    assert function(x, grid[:, :0], mode).shape == (2, 3, 0, 7)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, torch.inf, -torch.inf])
def test_norms(order):
    function = Calls(lambda x: torch.linalg.vector_norm(x, order, dim=(0, 2)))
    x = torch.arange(-11.0, 13.0).reshape(2, 3, 4)
    got = front.export(function, (x,))(x.numpy())
    torch.testing.assert_close(torch.from_numpy(got), function(x))


class Calls(torch.nn.Module):
    def __init__(self, function, *modules) -> None:
        super().__init__()
        self.function = function
        self.modules_of_it = torch.nn.ModuleList(modules)

    def forward(self, *args):
        return self.function(*args)


class Spanned(torch.nn.Module):
    """A module whose sizes go through a tensor and back."""

    def forward(self, x):
        span = torch.tensor(min(x.shape[0], 4))
        return x[:, None] @ TABLE[5 - span : span * 2 - 1].T, (x.sum(1) + span).clamp(0, span * 3)


def test_sizes_that_go_through_tensors():
    x = torch.linspace(-2.0, 9.0, 12).reshape(3, 4)
    rows = {0: torch.export.Dim.AUTO}
    model = front.export(Spanned(), (x,), dynamic_shapes=(rows,), check=True)
    for n in (2, 3, 5, 9):
        given = x.repeat(3, 1)[:n] - 1
        for made, wanted in zip(model(given.numpy()), Spanned()(given), strict=True):
            torch.testing.assert_close(torch.from_numpy(made), wanted)


class Summed(torch.nn.Module):
    """A module some of whose results are no tensors."""

    def forward(self, x, sizes=False):
        return x.relu() * x + 1, None, x.shape[0] if sizes else x * 2


@pytest.mark.parametrize("sizes", [{0}, {0, 1}], ids=["rows", "both"])
def test_arguments_of_any_strides_have_unknown_dims(sizes):
    whole = torch.linspace(-2.0, 9.0, 40).reshape(5, 8)
    shapes = (dict.fromkeys(sizes, torch.export.Dim.AUTO),)
    for x in (whole[:, 1:4], whole[::2], whole.t()[1:], whole[:, :1].expand(5, 3)):
        model = front.export(Summed(), (x,), dynamic_shapes=shapes, check=True)
        given = whole[1:4].flip(0)[:, : x.shape[1]]
        wanted, _, twice = Summed()(given)
        for made, right in zip(model(given.numpy()), (wanted, twice), strict=True):
            torch.testing.assert_close(torch.from_numpy(made), right)


@pytest.mark.parametrize(
    "name, call",
    {
        "chunk": lambda x: x.relu().chunk(2)[0] * 3 + x.chunk(2)[1],
        "glu": lambda x: F.glu(x.relu() + 1, 0),
        "split": lambda x: torch.stack(x.relu().split([x.shape[0] - 2, 2])[1:]),
    }.items(),
)
def test_parts_of_unknown_sizes(name, call):
    x = torch.linspace(-2.0, 9.0, 32).reshape(8, 4)
    model = front.export(Calls(call), (x[:6],), dynamic_shapes=(({0: torch.export.Dim.AUTO},),))
    for n in (6, 8, 4):
        torch.testing.assert_close(torch.from_numpy(model(x[:n].numpy())), call(x[:n]))
    if name != "split":
        with pytest.raises(og.InvalidShapeError, match=r"model is for .*args_0"):
            model(x[:5].numpy())


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
def test_what_oneDNN_lacks_runs_in_pieces(dynamic):
    modules = torch.nn.ModuleDict(
        {
            "layer": torch.nn.LayerNorm((3, 5)),
            "rms": torch.nn.RMSNorm((7, 3, 5)),
            "group": torch.nn.GroupNorm(2, 6),
            "plain": torch.nn.GroupNorm(7, 7, affine=False),
        }
    )
    for p in modules.parameters():
        torch.nn.init.uniform_(p, -1, 1, generator=torch.Generator().manual_seed(3))

    def call(x, y):
        means = torch.var_mean(x, (1, 3), correction=0)
        masks = F.prelu(y, y[0]), torch.logaddexp(y, y.flip(1)), y.squeeze(0)
        normed = modules["layer"](x), modules["rms"](x), modules["group"](y), modules["plain"](x)
        return *normed, *means, *masks

    generator = torch.Generator().manual_seed(4)
    x, y = torch.randn(4, 7, 3, 5, generator=generator), torch.randn(9, 6, generator=generator)
    rows = {0: torch.export.Dim.AUTO} if dynamic else None
    model = front.export(Calls(call), (x, y), dynamic_shapes=((rows, rows),))
    for count in (4, 2, 3) if dynamic else (4,):
        given = x[:count], y[: 2 * count + 1]
        for got, wanted in zip(model(*(g.numpy() for g in given)), call(*given), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted)


def test_a_size_is_no_result():
    with pytest.raises(og.InvalidGraphError, match="result 1 is 3, not a tensor"):
        front.trace(Summed(), (torch.ones(3, 2), True))
    shapes = ({0: torch.export.Dim.AUTO}, None)
    with pytest.raises(og.InvalidGraphError, match=r"result 1 is sym_size.*, not a tensor"):
        front.trace(Summed(), (torch.ones(3, 2), True), dynamic_shapes=shapes)


def test_a_number_among_the_elements_is_no_size():
    module = Spanned()
    module.forward = lambda x: TABLE[: x[0, 0].long()] * x[0, 1]
    with pytest.raises(og.InvalidGraphError, match=r"slice.*it reads a number that .* gives"):
        front.trace(module, (torch.ones(2, 4),))


def test_complex_numbers_are_compared_whole():
    b = og.GraphBuilder()
    b.output(b.call(np.fft.fft, b.input((3, 5), "f32"), outputs=[((3, 5), "c64")]))
    model = b.compile()
    x = np.linspace(-1, 2, 15, dtype=np.float32).reshape(3, 5)
    assert model.verify(x).ok
    assert model(x).dtype == np.complex64
    made = np.complex64([[1 + 2j, 3]])
    check = compared("y", "c64", made.conj(), made, np.float64(1e-3))
    assert (check.wrong, check.max_error) == (1, 4.0)


def test_a_call_that_can_not_run_in_pieces_is_named_before_them():
    class Module(torch.nn.Module):
        def forward(self, x):
            return x.var(1, correction=1), x.std(0, correction=0)

    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns")
    sizes = ({0: rows, 1: columns},)
    with pytest.raises(og.InvalidGraphError, match=r"\n  aten\.var\.c.*unknown.*\n  prims\.var"):
        front.trace(Module(), (torch.rand(3, 4),), dynamic_shapes=sizes)

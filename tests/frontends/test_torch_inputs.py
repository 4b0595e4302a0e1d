"""torch.compile: numbers that change between calls, kinds of tensors, constants as results."""

import warnings

import numpy as np
import pytest

import onednn_graph_py as og

torch = pytest.importorskip("torch", reason="torch is not installed")
front = pytest.importorskip("onednn_graph_py.torch")
from torch._subclasses import FakeTensorMode  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def agree(function, *calls, dynamic=None, tolerance=1e-5):
    """Compare with torch for several calls in a row, of which only the first is captured anew."""
    run = torch.compile(function, backend="onednn_graph", dynamic=dynamic, options={"min_ops": 1})
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", front.FallbackWarning)
        for given in calls:
            wanted, got = function(*given), run(*given)
            torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    return run


ROWS = torch.linspace(-2, 2, 24).reshape(4, 6)
IMAGES = torch.linspace(-2, 2, 432).reshape(1, 3, 12, 12)
KERNEL = torch.linspace(-1, 1, 135).reshape(5, 3, 3, 3)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, a: x.clamp(a - 1, 1.0),
        lambda x, a: F.elu(x, a),
        lambda x, a: F.leaky_relu(x, a),
        lambda x, a: F.softplus(x, a),
        lambda x, a: F.layer_norm(x, (6,), eps=a),
        lambda x, a: x.abs() ** a,
        lambda x, a: x * a,
        lambda x, a: torch.add(x, x, alpha=a),
        lambda x, a: F.scaled_dot_product_attention(*[x[None, None]] * 3, scale=a),
        lambda x, a: torch.addmm(x, torch.ones(4, 4), x, alpha=a, beta=a),
        lambda x, a: torch.lerp(x, 2 * x, a),
    ],
    ids=[
        "clamp",
        "elu",
        "leaky_relu",
        "softplus",
        "layer_norm",
        "pow",
        "mul",
        "add",
        "attention",
        "addmm",
        "lerp",
    ],
)
def test_numbers_that_change(function, dynamic):
    agree(function, *[(ROWS, a) for a in (1.0, 0.25, 3.0, 0.5)], dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: F.avg_pool2d(x, k + 1),
        lambda x, k: F.max_pool2d(x, k + 1, stride=k),
        lambda x, k: F.adaptive_avg_pool2d(x, k),
        lambda x, k: F.conv2d(x, KERNEL, stride=k, padding=k),
        lambda x, k: F.conv2d(x, KERNEL, dilation=k),
        lambda x, k: F.conv2d(F.pad(x, (k, k, k, k)), KERNEL),
        lambda x, k: F.interpolate(x.relu(), scale_factor=k),
        lambda x, k: x.relu()[..., k],
        lambda x, k: x.relu()[..., :k],
        lambda x, k: x.relu().split(k, -1),
        lambda x, k: x.relu().sum(k),
        lambda x, k: x.relu().view(k, -1),
    ],
    ids=[
        "avg_pool",
        "max_pool",
        "adaptive",
        "conv",
        "dilation",
        "pad",
        "interpolate",
        "select",
        "slice",
        "split",
        "sum",
        "view",
    ],
)
def test_sizes_that_change(function, dynamic):
    agree(function, *[(IMAGES, k) for k in (1, 2, 3)], dynamic=dynamic)


def test_padding_of_other_kinds_stays_right():
    for image, sizes, value in (
        (IMAGES, (1, 1, 1, 1), 2.0),
        (IMAGES[0], (1, 1, 1, 1), 0.0),
        (IMAGES, (-1, 1, 1, 1), 0.0),
        (IMAGES[:, :2], (1, 1, 1, 1, 0, 1), 0.0),
    ):
        torch._dynamo.reset()
        agree(lambda x, s=sizes, v=value: F.conv2d(F.pad(x, s, value=v), KERNEL), (image,))
    agree(lambda x: F.conv2d(torch.constant_pad_nd(x, (1, 1, 1, 1), value=2.0), KERNEL), (IMAGES,))


def test_constants_of_types_that_oneDNN_lacks():
    agree(lambda x: torch.where(x > 0, x, torch.tensor(0)), (ROWS,))
    agree(lambda x: x.relu() * torch.arange(6), (ROWS,))
    agree(lambda x: torch.maximum(x.relu(), torch.tensor(1.0, dtype=torch.float64)), (ROWS,))


def test_results_that_are_constants_are_new_at_each_call():
    def function(x):
        return (
            x.relu(),
            torch.arange(4),
            torch.arange(4).view(2, 2),
            torch.tensor([1.0, 2.0]),
            torch.full((2, 2), 3.0).t(),
        )

    run = agree(function, (ROWS,))
    with torch.no_grad():
        for made in run(ROWS):
            made.zero_()
        torch.testing.assert_close(run(ROWS), function(ROWS))


def test_results_that_follow_from_weights_are_new_at_each_call():
    weight = torch.nn.Parameter(torch.randn(300, 300))

    def function(x):
        return x @ weight, F.gelu(weight), weight

    x = torch.randn(2, 300)
    run = agree(function, (x,), tolerance=1e-4)
    with torch.no_grad():
        run(x)[1].zero_()
        torch.testing.assert_close(run(x)[1], F.gelu(weight))
        assert run(x)[2] is weight


def test_branches():
    weight = torch.randn(6, 6)

    def function(x):
        made = torch.cond(
            x.sum() > 0, lambda y: (y @ weight).relu(), lambda y: y @ weight - 1, (x @ weight,)
        )
        return made.relu()

    agree(function, (ROWS.abs(),), (-ROWS.abs(),), tolerance=1e-4)


def test_gradients_that_a_function_turns_on():
    weight = torch.nn.Parameter(torch.randn(6, 6))

    def function(x):
        with torch.enable_grad():
            return (x @ weight).relu()

    run = torch.compile(function, backend="onednn_graph")
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match="gradients are on within it"):
        made = run(ROWS)
    assert made.requires_grad
    made.sum().backward()
    wanted = ROWS.t() @ (ROWS @ weight > 0).float()
    torch.testing.assert_close(weight.grad, wanted)


def quantized(x):
    with warnings.catch_warnings():  # torch says that they will be removed
        warnings.simplefilter("ignore", UserWarning)
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)


class Own(torch.Tensor):
    """A subclass of torch's tensors."""


NEGATIVE = torch._neg_view(ROWS)


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: torch.sparse.mm(x, ROWS).relu(), torch.eye(4).to_sparse()),
        (lambda x: (x @ x.mT).real, torch.complex(ROWS, ROWS)),
        (lambda x: (x @ x.mT).relu(), ROWS.double()),
        (lambda x: torch.addcmul(x, x, x, value=0.5), ROWS.long()),
        (lambda x: x.dequantize().relu(), quantized(ROWS)),
        (lambda x: (x @ torch.ones(6, 6)).relu(), ROWS.as_subclass(Own)),
        (lambda x: (x @ x.mT).relu(), torch._neg_view(ROWS)),
        (lambda x: (x @ NEGATIVE.mT).relu(), ROWS),
    ],
    ids=[
        "sparse",
        "complex",
        "f64",
        "integers",
        "quantized",
        "subclass",
        "negative",
        "negative weight",
    ],
)
def test_kinds_of_tensors(function, x):
    agree(function, (x,), (x,))


def fake(x):
    with FakeTensorMode() as mode:
        return mode.from_tensor(x)


IMAGINARY = torch.complex(ROWS, ROWS + 1).conj()
READ = {
    "real part": IMAGINARY.real,
    "subclass": ROWS.as_subclass(Own),
    "repeated": ROWS[:1].expand(4, 6),
    "columns": ROWS.mT.contiguous().mT,
    "detached": torch.nn.Parameter(ROWS).detach(),
}
REFUSED = {
    "imaginary part": (IMAGINARY.imag, "negative bit"),
    "conjugate": (IMAGINARY, "conjugate bit"),
    "gradients": (torch.nn.Parameter(ROWS), "require gradient"),
    "sparse": (ROWS.to_sparse(), "torch.strided"),
    "quantized": (quantized(ROWS), "QInt"),
    "meta": (ROWS.to("meta"), "meta"),
    "mkldnn": (ROWS.to_mkldnn(), "OpaqueTensorImpl"),
    "zeros": (torch._efficientzerotensor((4, 6)), "no memory|null address"),
    "fake": (fake(ROWS), "no memory|null address"),
    "functional": (torch._to_functional_tensor(ROWS), "no memory|null address"),
}


def through_the_mirror(x):
    strides = x.stride() if x.layout is torch.strided else (6, 1)
    lt = og.logical_tensor(0, "f32", (4, 6), strides)
    return og.tensor(lt, og.engine("cpu", 0), x).numpy()


def through_a_model(x):
    b = og.GraphBuilder()
    b.output(b.input((4, 6), name="given").relu())
    return b.compile()(x)


@pytest.mark.parametrize("kind", READ)
def test_tensors_are_read_without_torch_compile(kind):
    wanted = READ[kind].numpy()
    np.testing.assert_array_equal(through_the_mirror(READ[kind]), wanted)
    np.testing.assert_array_equal(through_a_model(READ[kind]), np.maximum(wanted, 0))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("kind", ["repeated", "columns"])
def test_tensors_of_types_that_numpy_lacks_may_have_strides(kind, dtype):
    x = READ[kind].to(getattr(torch, dtype))
    b = og.GraphBuilder()
    b.output(
        b.input((4, 6), {"bfloat16": "bf16", "float8_e5m2": "f8_e5m2"}[dtype]).transpose((1, 0))
    )
    model = b.compile()
    np.testing.assert_array_equal(model(x).astype(np.float32), x.float().numpy().T)
    with pytest.raises(og.InvalidShapeError, match="input 'input0' must have the shape 4x6"):
        model(x.mT)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("kind", REFUSED)
def test_tensors_that_dlpack_does_not_describe_are_refused(kind):
    """Above all they are not read wrongly: DLPack leaves out the negative bit, and memory."""
    x, reason = REFUSED[kind]
    with pytest.raises((BufferError, ValueError, NotImplementedError), match=reason):
        through_the_mirror(x)
    with pytest.raises(og.InvalidArgumentsError, match=rf"input 'given'.*({reason})"):
        through_a_model(x)


def test_mask_of_f32_for_bf16():
    mask = torch.zeros(5, 5)
    mask[0] = torch.finfo(torch.float32).min
    mask[1] = -torch.inf
    mask[2, 2] = -3.0
    q = torch.randn(1, 2, 5, 8, dtype=torch.bfloat16)
    for dynamic in (None, True):
        torch._dynamo.reset()
        agree(
            lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
            (q, mask),
            dynamic=dynamic,
            tolerance=2 * 2**-8 * float(q.abs().max()),
        )
